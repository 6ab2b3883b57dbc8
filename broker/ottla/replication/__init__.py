"""Partitions on this node: led or followed, in sync or not, committed up to the high watermark; and fetches of them.

Terms, as in Kafka: LEO (log end offset), HW (high watermark), ISR. The *maximal ISR* is the larger of the committed and
the proposed one. A *round* is one Fetch being served; it may read several times. An offset is *confirmable* when the
record is where it has to be on this replica: in the log, or on the disk (ottla.acks.fsync).

Invariants:

- The HW is at most the smallest confirmed offset of the maximal ISR, and goes back only by truncation.
- One change of a partition's ISR is pending at a time; only the leader of the present epoch proposes.
- A follower confirms by its next fetch offset, and truncates to where its log diverges from the leader's.
- Consumers read below the HW (or the last stable offset), followers up to the LEO.

Start with ``README.md`` (the ISR's state diagram), `partition`, `isr.partition_isr`, `fetch.fetch_round`.

====================  ========================================================================================
metadata_publisher    creates, changes, removes partitions as the metadata says
replica_manager       what requests use: find, append, wait
isr                   `PartitionIsr` (state machine), proposals to the controller
fetch                 rounds of consumers and followers
sessions              fetch sessions (KIP-227), and which of them a partition's changes concern
replica_fetcher       copies from one leader; `replica_fetcher_manager` has all of them
====================  ========================================================================================

What surprises: a fetch session looks only at partitions that changed since (`sessions.partition_watchers`).
`disconnected_leaders` delays Metadata responses for a moment after a leader's connection broke.
"""
