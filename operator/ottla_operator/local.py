"""Apply, get and delete manifests, and run a cluster, on this machine: what the command line calls.

The same documents as on Kubernetes go through the same schemas, planner and executor; a state directory stands
in for the API server, and child processes for pods. One state directory holds at most one cluster, so every
``clusterRef`` in it means that one, whatever its name; an explicit ``bootstrap`` means the brokers there.

These functions block; inside an event loop, run them in a thread.
"""
