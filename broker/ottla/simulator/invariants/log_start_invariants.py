"""Invariants of log starts and of followers' high watermarks; more of `invariants`."""

from ottla.simulator.invariants.ledger import InvariantViolation, PartitionKey
from ottla.simulator.invariants.state_observer import Invariant, ReplicaChange, SegmentDeletion
from ottla.types import Offset


class OnlyUnwantedRecordsAreDeleted(Invariant):
    """A log start moves only as far as DeleteRecords requests or retention permits, and never past the high watermark.

    Retention is checked when it deletes: by the segment's own records, by the size that is left, and by that node's
    clock.
    """

    def on_replica(self, change: ReplicaChange) -> None:
        before, now = change.before, change.now
        if now.start_offset == before.start_offset:
            return
        ledger = self.state_observer.ledger.partition(change.key)
        if ledger.is_excused:
            return
        where = f"OnlyUnwantedRecordsAreDeleted: {change.key} on node {change.place.node_id}"
        if before.leader_epoch >= 0 and now.start_offset < before.start_offset:
            raise InvariantViolation(f"{where} started at {before.start_offset} and starts at {now.start_offset} now")
        if now.start_offset > ledger.end:
            raise InvariantViolation(f"{where} starts at {now.start_offset}; committed is {ledger.end}")
        if now.start_offset > ledger.deleted_to:
            raise InvariantViolation(
                f"{where} starts at {now.start_offset}; deletion was requested below {ledger.deleted_to}"
            )

    def on_deletion(self, deletion: SegmentDeletion) -> None:
        ledger = self.state_observer.ledger.partition(deletion.key)
        end_offset = deletion.segment.end_offset
        if ledger.is_excused:
            # A follower that restarts at the leader's log start has no state of the producers of deleted records.
            ledger.deleted_to = max(ledger.deleted_to, end_offset)
            return
        where = f"OnlyUnwantedRecordsAreDeleted: {deletion.key} on node {deletion.place.node_id}"
        if end_offset > ledger.end:
            raise InvariantViolation(f"{where} deletes what is below {end_offset}; committed is {ledger.end}")
        if end_offset <= deletion.partition.log.log_start_offset:
            return  # below the log start already: the move of the log start itself was checked
        if not _is_out_of_retention(deletion):
            raise InvariantViolation(
                f"{where} deletes what is below {end_offset}, which retention.ms and retention.bytes keep"
            )
        ledger.deleted_to = max(ledger.deleted_to, end_offset)

    def on_skipped(self, key: PartitionKey, position: Offset, start: Offset) -> None:
        ledger = self.state_observer.ledger.partition(key)
        if start > ledger.deleted_to and not ledger.is_excused:
            raise InvariantViolation(
                f"OnlyUnwantedRecordsAreDeleted: a consumer at offset {position} of {key} found that the log starts "
                f"at {start}; deletion was requested below {ledger.deleted_to}"
            )


def _is_out_of_retention(deletion: SegmentDeletion) -> bool:
    """Return whether the segment is too old, or the log without it is large enough."""
    config, segment = deletion.partition.log.config, deletion.segment
    age_ms = deletion.place.clock.wall_ms() - segment.newest_ms
    is_too_old = 0 <= config.retention_ms < age_ms
    return config.is_deleted and (is_too_old or 0 <= config.retention_bytes <= segment.left_bytes)


class FollowersKnowLess(Invariant):
    """No follower calls more committed than some leader of the partition did before it."""

    def on_replica(self, change: ReplicaChange) -> None:
        high_watermark = change.now.high_watermark
        if high_watermark <= change.before.high_watermark:
            return
        ledger = self.state_observer.ledger.partition(change.key)
        if change.now.is_leader or change.before.is_leader:
            ledger.led_to = max(ledger.led_to, high_watermark)
            return
        # A leader whose process ends is not observed after the last requests that it served.
        ledger.led_to = max(ledger.led_to, self.state_observer.highest_seen(change.key, of_leaders=True))
        if high_watermark > ledger.led_to and not ledger.is_excused:
            raise InvariantViolation(
                f"FollowersKnowLess: {change.key} on node {change.place.node_id} is said to be committed to "
                f"{high_watermark}; no leader has said more than {ledger.led_to}"
            )
