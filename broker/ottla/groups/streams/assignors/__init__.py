"""The assignor of streams groups, `sticky`: which member gets which active and standby tasks.

An assignor computes the target assignment of a whole group, in slices, from `types.GroupSpec` and `types.TaskTopology`.
It keeps no state between two assignments, and reads nothing else. The result is that of Kafka 4.3.1 for the same input:
Java's priority queue (`java_priority_queue`) and hash orders break ties.
"""
