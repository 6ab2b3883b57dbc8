"""Partitions on this node, led or followed, with their ISR and high watermark; and fetches of them.

Terms, as in Kafka: LEO (log end offset), HW (high watermark), ISR. The *maximal ISR* is the larger of the committed and
the proposed one. A *round* serves one Fetch; it may read several times. An offset is *confirmable* when the record is
durable as configured on this replica: in the log, or on the disk (ottla.acks.fsync).

Invariants:

- The HW is at most the smallest confirmed offset of the maximal ISR, and goes back only by truncation.
- A follower outside the maximal ISR delays the HW only while it fetches, and for replica.lag.time.max.ms at most.
- One change of a partition's ISR is pending at a time; only the leader of the present epoch proposes.
- A follower confirms by its next fetch offset, and truncates to the point where its log diverges from the leader's.
- Consumers read below the HW (or the last stable offset), followers up to the LEO.

Start with `docs/states.md` (the ISR's state diagram), `partition`, `isr.partition_isr`, `fetch.fetch_round`.

====================  ========================================================================================
metadata_publisher    creates, changes, removes partitions as the metadata requires
replica_manager       entry for requests: find, append, wait
isr                   `PartitionIsr` (state machine), proposals to the controller
fetch                 rounds of consumers and followers
sessions              fetch sessions (KIP-227), and which of them watch a partition
replica_fetcher       copies from one leader; `replica_fetcher_manager` has all of them
followed_partitions   the partitions of one fetcher; `offset_reset` and `follower_syncs` are its other parts
====================  ========================================================================================

Surprises: a fetch session checks only partitions that changed since (`sessions.partition_watchers`).
`disconnected_leaders` delays Metadata responses for a moment after a leader's connection broke.
"""
