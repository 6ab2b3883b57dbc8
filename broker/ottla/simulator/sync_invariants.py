"""What must be on disks with ottla.acks.fsync; more of `invariants`.

That nothing which was acknowledged is ever lost is `AcknowledgedRecordsAreNeverLost`: where the setting is on, no power
cut excuses a partition (`Witness.data_was_lost`).
"""

from itertools import pairwise

from ottla.replication.partition import Partition
from ottla.simulator.cluster import SimulatedNode
from ottla.simulator.invariants import replica_of
from ottla.simulator.ledger import InvariantViolation
from ottla.simulator.witness import Change, Invariant
from ottla.types import Offset
from ottla.wire.records import iterate_batches


class CommittedRecordsAreSynced(Invariant):
    """With ottla.acks.fsync, what a leader calls committed is on the disk of every in-sync replica that runs."""

    def on_replica(self, change: Change) -> None:
        before, now = change.before.high_watermark, change.now.high_watermark
        if not change.now.is_leader or now <= before or not self.witness.confirms_synced(change.key.topic):
            return
        if self.witness.ledger.of(change.key).is_excused:
            return
        for node_id in change.partition.in_sync:
            place = self.witness.cluster.nodes[node_id]
            replica = None if place.process is None else replica_of(place.process.replicas, change.key)
            if replica is None or self.witness.is_harmed(change.key, node_id):
                continue
            if not _is_synced(place, replica, before, now):
                raise InvariantViolation(
                    f"CommittedRecordsAreSynced: {change.key} is said to be committed to {now} by node "
                    f"{change.place.node_id}; node {node_id} is in sync, and a power cut would take some of that from "
                    "its disk"
                )


def _is_synced(place: SimulatedNode, replica: Partition, start: Offset, end: Offset) -> bool:
    """Return whether the records from ``start`` to ``end`` would survive a power cut of the node."""
    segments = replica.log.segments()
    ends = [following.base_offset for _, following in pairwise(segments)] + [replica.log.log_end_offset]
    return all(
        place.disk.survives_power_cut(segment.path, _size_bytes_below(place.disk.contents(segment.path), end))
        for segment, segment_end in zip(segments, ends, strict=True)
        if segment.base_offset < end and segment_end > start
    )


def _size_bytes_below(content: bytes, end: Offset) -> int:
    """Return how many bytes of a segment hold the batches below ``end``."""
    size_bytes = 0
    for batch in iterate_batches(content):
        if batch.next_offset > end:
            break
        size_bytes = batch.end_position
    return size_bytes
