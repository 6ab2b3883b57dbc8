"""Share groups (KIP-932): members, epochs, target assignments, and which share-partitions are initialized.

A *share-partition* is a partition as one share group consumes it. Several members may have the same one: there is no
reconciliation, a member takes over its target at once. A share-partition is *initialized* when the share coordinator
has created its state; only then is it assigned. The records of a member are delivered by the leaders of the partitions
(`share_partitions`), which know no members.

Invariants:

- `group` changes by `replay` only; `heartbeat`, `initialization` and `offsets` decide, and return records.
- A partition is assigned only if a record says that it is initialized.
- The state of a share-partition is created after the record that lists it as initializing, and deleted after the record
  that lists its topic as deleting: whatever fails in between is repeated.
- The same requests write the same records as JVM Kafka, the hash included; each loads the log of the other.

Start reading at `service`, then `heartbeat`, `target` and `initialization`.

Surprising: the response to a heartbeat does not wait for the initialization; a new group has no partitions until the
second heartbeat. A topic that is deleted is removed from the record only: the share coordinators remove the state
themselves.
"""
