"""Invariants of synced data with ottla.acks.fsync; more of `invariants`.

`AcknowledgedRecordsAreNeverLost` checks that no acknowledged record is lost: with the setting, no power cut excuses a
partition (`StateObserver.note_data_loss`).
"""

from collections.abc import Callable
from itertools import pairwise

from ottla.log.partition_log import PartitionLog
from ottla.simulator.invariants.cluster_invariants import replica_of
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import Invariant, ReplicaChange
from ottla.simulator.world.node import SimulatedNode
from ottla.types import Offset
from ottla.wire.records import iterate_batches


class CommittedRecordsAreSynced(Invariant):
    """With ottla.acks.fsync, records below a leader's high watermark are on the disk of every live in-sync replica."""

    def on_replica(self, change: ReplicaChange) -> None:
        before, now = change.before.high_watermark, change.now.high_watermark
        if not change.now.is_leader or now <= before or not self.state_observer.confirms_synced(change.key.topic):
            return
        if self.state_observer.ledger.partition(change.key).is_excused:
            return
        for node_id in change.partition.isr.in_sync:
            place = self.state_observer.cluster.nodes[node_id]
            if place.process is None or self.state_observer.is_harmed(change.key, node_id):
                continue
            replica = replica_of(place.process.replicas, change.key)
            if replica is None:
                continue
            moved = place.process.logs.futures.replaced(replica.topic_partition)
            if not _is_synced(place, replica.log, moved, range(before, now)):
                raise InvariantViolation(
                    f"CommittedRecordsAreSynced: {change.key} is said to be committed to {now} by node "
                    f"{change.place.node_id}; node {node_id} is in sync, and a power cut would take some of that from "
                    "its disk"
                )


def _is_synced(place: SimulatedNode, log: PartitionLog, replaced: PartitionLog | None, span: range) -> bool:
    """Return whether the records of these offsets would survive a power cut of the node.

    ``replaced`` has the files of the log from before a move whose new name is not synced: a power cut may take that
    name, or keep it, so both must have the records.
    """
    survives, is_content_synced = place.disk.survives_power_cut, place.disk.is_content_synced
    if replaced is None:
        return _all_files(place, log, span, survives)
    return _all_files(place, log, span, is_content_synced) and _all_files(place, replaced, span, survives)


def _all_files(place: SimulatedNode, log: PartitionLog, span: range, is_synced: Callable[[str, int], bool]) -> bool:
    """Return whether the log has all of these offsets, in files of which each is synced so far."""
    segments = log.segments()
    ends = [following.base_offset for _, following in pairwise(segments)] + [log.log_end_offset]
    return ends[-1] >= span.stop and all(
        is_synced(segment.path, _size_bytes_below(place.disk.contents(segment.path), span.stop))
        for segment, segment_end in zip(segments, ends, strict=True)
        if segment.base_offset < span.stop and segment_end > span.start
    )


def _size_bytes_below(content: bytes, end: Offset) -> int:
    """Return how many bytes of a segment hold the batches below ``end``."""
    size_bytes = 0
    for batch in iterate_batches(content):
        if batch.next_offset > end:
            break
        size_bytes = batch.end_position
    return size_bytes
