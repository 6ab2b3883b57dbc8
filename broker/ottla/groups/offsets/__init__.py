"""Committed offsets of groups: OffsetCommit, OffsetFetch, OffsetDelete and expiry.

Terms: a *key* is group, topic and partition; an offset is *pending* while the transaction that commits it is open
(KIP-447); *retention* is the time for which offsets are kept after their group became empty.

Invariants:

- `store` changes only by replay of records: each operation returns records, and responses wait for their commit.
- An offset expires only if no member can return to it: nothing expires while a group rebalances, nor topics that its
  members subscribe to (`expiry`).
- Pending offsets are visible only after the transaction's commit marker; a fetch that requires stable offsets gets
  UNSTABLE_OFFSET_COMMIT meanwhile.

Start reading at `service`; `commit`, `fetch` and `delete` hold one API each.

Surprising: a group that only commits offsets has no record of its own, and any client may commit while a group has no
members. ``offset.metadata.max.bytes`` counts UTF-16 code units, as in Kafka.
"""
