"""The log of one partition and the logs of a node: segments on disk, recovery, retention, producer state.

Start with `partition_log`: one partition's log, on `log_state` and `append`. Its files are `local_log`'s:

- `segment`, `segments`: a ``.log`` file with its `offset_index`, `time_index` and `transaction_index` (`index_file`).
- `batch_walk`, `log_reader`, `offset_lookup`: find batches by position, bytes for a fetch, offsets by timestamp.
- `producer_state`, `producer_snapshots`, `replay`: idempotent and transactional producers (KIP-98), from batches.
- `leader_epoch_cache`, `epoch_check`, `unknown_epochs`: start offsets of leader epochs (KIP-101).
- `durability`: syncs, and the recovery point, below which everything is on stable storage.
- `recovery`, `interrupted_work`: open a log after a clean stop or a crash. `retention`: the segments to delete.
- `cleaner`: compaction (cleanup.policy=compact).

Before an append, `validation` and `batch_check` check a producer's batch. A node's logs are in `manager`: several
`log_directory` (lock, `meta_properties`, `checkpoint` files), and `maintenance`, the periodic work. `open_files` limits
descriptors, `deleted_files` keeps deleted files for a while, `dump` prints files.

Terms are Kafka's: log start offset <= high watermark <= log end offset; last stable offset; recovery point.

Invariants:

- Offsets ascend and leader epochs never decrease from batch to batch; only compaction leaves gaps.
- A batch in the log has been checked: its CRC when it was appended or recovered, so reads do not check it again.
- Indexes, snapshots and epochs of records hold nothing that the batches do not, so recovery can rebuild them.
- An I/O error ends the log: `PartitionLog.failure` is raised by every later change, and the owner takes the whole log
  directory offline. A shortage of descriptors or memory does not.
- File names and formats are Kafka's, so that Kafka's tools read them.

Surprising: nothing is thread-safe and all of it runs on the node's loop; only syncs, long checks and the work of a
cleaning run off the loop.
A read returns a slice of a file, not bytes. Append and read are the hot path: a function call per batch is measurable.
"""
