"""Share groups at the leader of a partition: records in flight, share sessions, ShareFetch, ShareAcknowledge (KIP-932).

`SharePartition` is what one share group has of one partition. `SharePartitionManager` holds those of this node, and the
`ShareSessionCache`. `ShareFetchRound` serves one ShareFetch: it reads the log, acquires, and waits if there is nothing.
"""
