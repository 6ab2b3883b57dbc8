"""Share groups at the leader of a partition: records in flight, share sessions, ShareFetch, ShareAcknowledge (KIP-932).

`SharePartition` is one partition as one share group consumes it. `SharePartitionManager` has those of this node, and
the `ShareSessionCache`. `ShareFetchRound` serves one ShareFetch: it reads the log, acquires, and waits if there is
nothing.
"""
