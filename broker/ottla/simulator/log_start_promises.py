"""What is promised of where logs start, and of how much followers know; more of `invariants`."""

from ottla.replication.partition import Partition
from ottla.simulator.ledger import InvariantViolation, PartitionKey
from ottla.simulator.witness import Change, Invariant
from ottla.types import Offset

_HOLDS_FOR_EVER_MS = 2 * 3_600_000
"""Clocks are less than an hour wrong: a longer retention.ms does not end within a run."""


class OnlyUnwantedRecordsAreDeleted(Invariant):
    """A log start moves only as far as DeleteRecords asked, or retention permits, and never past what is committed."""

    def on_replica(self, change: Change) -> None:
        before, now = change.before, change.now
        if now.start_offset == before.start_offset:
            return
        ledger = self.witness.ledger.of(change.key)
        if ledger.is_excused:
            return
        where = f"OnlyUnwantedRecordsAreDeleted: {change.key} on node {change.place.node_id}"
        if before.leader_epoch >= 0 and now.start_offset < before.start_offset:
            raise InvariantViolation(f"{where} started at {before.start_offset} and starts at {now.start_offset} now")
        if now.start_offset > max(ledger.end, now.high_watermark):
            raise InvariantViolation(f"{where} starts at {now.start_offset}; committed is {ledger.end}")
        if now.start_offset > ledger.deleted_to:
            if not _is_retained_less(change.partition):
                raise InvariantViolation(
                    f"{where} starts at {now.start_offset}; deletion was asked for below {ledger.deleted_to}"
                )
            ledger.deleted_to = now.start_offset

    def on_skipped(self, key: PartitionKey, position: Offset, start: Offset) -> None:
        ledger = self.witness.ledger.of(key)
        if start > ledger.deleted_to and not ledger.is_excused:
            raise InvariantViolation(
                f"OnlyUnwantedRecordsAreDeleted: a consumer at offset {position} of {key} was told that the log starts "
                f"at {start}; deletion was asked for below {ledger.deleted_to}"
            )


def _is_retained_less(partition: Partition) -> bool:
    """Whether retention may have deleted everything that is gone: by age, or because what is left is large enough."""
    config, size_bytes = partition.log.config, partition.log.size_bytes
    by_age = 0 <= config.retention_ms < _HOLDS_FOR_EVER_MS
    return config.is_deleted and (by_age or 0 <= config.retention_bytes <= size_bytes)


class FollowersKnowLess(Invariant):
    """No follower calls more committed than some leader of the partition did before it."""

    def on_replica(self, change: Change) -> None:
        high_watermark = change.now.high_watermark
        if high_watermark <= change.before.high_watermark:
            return
        ledger = self.witness.ledger.of(change.key)
        if change.now.is_leader or change.before.is_leader:
            ledger.led_to = max(ledger.led_to, high_watermark)
        elif high_watermark > ledger.led_to and not ledger.is_excused:
            raise InvariantViolation(
                f"FollowersKnowLess: {change.key} on node {change.place.node_id} is said to be committed to "
                f"{high_watermark}; no leader has said more than {ledger.led_to}"
            )
