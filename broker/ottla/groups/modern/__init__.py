"""What consumer groups, share groups and streams groups have in common; most of it is Kafka's ModernGroup.

They have a *group epoch* that changes with members, subscriptions and topics, a *target assignment* for an epoch, and
members that reach it by heartbeats. The same for all of them are these (`group`), the topics of a group, the hash of
them, the counts of subscriptions, the groups of a shard with the timers of members (`groups`), the replay of records,
the jobs that take longer than a heartbeat, and how a target assignment is written (`target`).

Source: ModernGroup of Apache Kafka 4.3.
"""
