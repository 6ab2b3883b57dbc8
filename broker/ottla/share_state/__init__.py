"""State of share-partitions: the share coordinator, and the requests to it (KIP-932)."""
