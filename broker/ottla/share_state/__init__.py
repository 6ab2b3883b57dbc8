"""State of share-partitions: the share coordinator, and the requests to it (KIP-932).

**Terms.** A *share-partition* is a partition as one share group consumes it. Its *state* is a start offset, and batches
of offsets behind it with delivery states and counts. The *state epoch* is the group coordinator's, and grows when the
state is reset; the *leader epoch* is that of the partition's leader. Older ones are fenced.

**Start reading** at `persister.py` (what leaders and group coordinators use), then `coordinator.py` (the checks of each
request), then `shard.py` (the state, its records, and the pruning of the log).

======================= ================================================================================================
`persister.py`          the interface, and its values
`client.py`             requests to share coordinators, repeated with a back-off; implements the interface
`coordinator.py`        the share-partitions that this node coordinates; implements the interface as well
`shard.py`              those of one partition of ``__share_group_state``
`batches.py`            merging delivery states by offset
`log.py`                records of ``__share_group_state``
`requests.py` `messages.py` `config.py`    the five APIs, Kafka's error messages, settings
======================= ================================================================================================
"""
