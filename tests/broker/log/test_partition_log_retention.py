"""Removal of records from a partition's log: truncation at its end, retention at its start."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
HOUR_MS = 3_600_000

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray | bytes, **options: Any) -> tuple[int, int]:
    result = log.append_as_leader(batch, leader_epoch=options.pop("leader_epoch", 0), now_ms=NOW_MS, **options)
    return result.first_offset, result.last_offset


# --- truncation


def test_truncation_within_a_batch_removes_the_whole_batch(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(2))
    append(log, make_batch(3))

    assert log.truncate_to(3)

    assert log.log_end_offset == 2
    assert append(log, make_batch(1)) == (2, 2)


def test_truncation_at_or_above_the_end_does_nothing(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(2))

    assert not log.truncate_to(2)
    assert not log.truncate_to(7)
    assert log.log_end_offset == 2


def test_truncation_at_the_end_removes_an_epoch_without_records(open_log: OpenLog, make_batch: MakeBatch) -> None:
    """A leader may have assigned it, and been replaced before it wrote anything."""
    log = open_log()
    append(log, make_batch(2), leader_epoch=3)
    log.assign_epoch_start_offset(5, 2)
    log.truncate_to(2)

    assert log.latest_epoch == 3
    assert log.log_end_offset == 2


def test_follower_skips_batches_of_epochs_above_its_own(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    fetched = b"".join(
        bytes(make_batch(1, base_offset=offset, leader_epoch=epoch)) for offset, epoch in enumerate((3, 4, 4))
    )
    result = log.append_as_follower(fetched, leader_epoch_max=3)

    assert (result.first_offset, result.last_offset) == (0, 0)
    assert log.log_end_offset == 1


def test_truncation_resets_watermarks_epochs_and_producers(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_bytes=200)
    for sequence in range(4):
        batch = make_batch(1, producer_id=1, producer_epoch=0, base_sequence=sequence)
        append(log, batch, leader_epoch=sequence)
    log.update_high_watermark(4)

    log.truncate_to(2)

    assert (log.high_watermark, log.latest_epoch, log.log_end_offset) == (2, 1, 2)
    assert append(log, make_batch(1, producer_id=1, producer_epoch=0, base_sequence=2)) == (2, 2)


def test_truncation_is_reported_to_the_owner(disk: SimulatedDisk, clock: Any, make_batch: MakeBatch) -> None:

    reported: list[int] = []
    log = PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=TopicPartition("topic", 0),
        config=LogConfig(),
        clock=clock,
        on_truncated=lambda log: reported.append(log.log_end_offset),
    )
    append(log, make_batch(4))

    log.truncate_to(4)
    log.truncate_to(0)
    log.truncate_fully_and_start_at(9)

    assert reported == [0, 9]


def test_full_truncation_may_keep_an_earlier_log_start(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(4))

    log.truncate_fully_and_start_at(100, log_start_offset=100)

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.latest_epoch) == (100, 100, 100, -1)
    assert append(log, make_batch(1)) == (100, 100)


# --- retention


@pytest.mark.parametrize(
    ("age_ms", "deleted"),
    [pytest.param(HOUR_MS, [], id="exactly-the-age-stays"), pytest.param(HOUR_MS + 1, [0], id="one-ms-older-goes")],
)
def test_retention_deletes_segments_by_age_of_their_newest_record(
    open_log: OpenLog, make_batch: MakeBatch, age_ms: int, deleted: list[int]
) -> None:
    log = open_log(retention_ms=HOUR_MS)
    append(log, make_batch(1))
    log.roll(NOW_MS)
    append(log, make_batch(1, timestamp_ms=NOW_MS + 2))
    log.update_high_watermark(2)

    assert log.apply_retention(NOW_MS + age_ms) == deleted
    assert log.log_start_offset == len(deleted)


def test_retention_keeps_segments_above_the_high_watermark(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(retention_ms=0)
    append(log, make_batch(2))
    log.roll(NOW_MS)
    append(log, make_batch(1))
    log.update_high_watermark(1)
    assert log.apply_retention(NOW_MS + HOUR_MS) == []

    log.update_high_watermark(2)

    assert log.apply_retention(NOW_MS + HOUR_MS) == [0]


def test_retention_deletes_the_active_segment_when_all_of_it_is_old(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(retention_ms=HOUR_MS)
    append(log, make_batch(2))
    log.update_high_watermark(2)

    assert log.apply_retention(NOW_MS + 2 * HOUR_MS) == [0]

    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (2, 2, 0)
    assert log.apply_retention(NOW_MS + 2 * HOUR_MS) == [], "an empty segment is not rolled again"


@pytest.mark.parametrize(
    ("spare_bytes", "deleted"),
    [pytest.param(0, [0], id="what-is-left-is-enough"), pytest.param(1, [], id="one-byte-too-few-would-be-left")],
)
def test_retention_by_size_keeps_at_least_retention_bytes(
    open_log: OpenLog, make_batch: MakeBatch, spare_bytes: int, deleted: list[int]
) -> None:
    log = open_log(retention_bytes=2 * len(make_batch(1)) + spare_bytes, retention_ms=-1)
    for _ in range(3):
        append(log, make_batch(1))
        log.roll(NOW_MS)
    log.update_high_watermark(3)

    assert log.apply_retention(NOW_MS) == deleted


def test_without_a_delete_policy_only_segments_below_the_log_start_are_deleted(
    open_log: OpenLog, make_batch: MakeBatch
) -> None:
    log = open_log(retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
    for _ in range(3):
        append(log, make_batch(1))
        log.roll(NOW_MS)
    log.update_high_watermark(3)
    assert log.apply_retention(NOW_MS + HOUR_MS) == []

    log.delete_records_before(2)

    assert log.apply_retention(NOW_MS + HOUR_MS) == [0, 1]


def test_deleted_files_are_removed_after_their_delay(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(file_delete_delay_ms=1000)
    append(log, make_batch(1))
    log.truncate_fully_and_start_at(5)

    def deleted() -> list[str]:
        return [path for path in disk.paths() if path.endswith(".deleted")]

    assert f"{DIRECTORY}/00000000000000000000.log.deleted" in deleted()
    log.tick(999)
    assert deleted()
    log.tick(1000)
    assert not deleted()


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS], ids=["set-back", "set-ahead"])
def test_deleted_files_are_removed_in_time_when_the_wall_clock_is_set(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, clock: Any, step_ms: int
) -> None:
    log = open_log(file_delete_delay_ms=1000)
    append(log, make_batch(1))
    log.truncate_fully_and_start_at(5)
    clock.step_wall(step_ms)

    def has_deleted() -> bool:
        return any(path.endswith(".deleted") for path in disk.paths())

    log.remove_deleted_files(clock.monotonic_ms() + 999)
    assert has_deleted()
    log.remove_deleted_files(clock.monotonic_ms() + 1000)
    assert not has_deleted()


def test_shorter_deletion_delay_does_not_wait_for_a_longer_one_before_it(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(file_delete_delay_ms=HOUR_MS)
    log.truncate_fully_and_start_at(5)
    log.update_config(LogConfig(file_delete_delay_ms=1000))
    append(log, make_batch(1))
    log.truncate_fully_and_start_at(10)

    log.remove_deleted_files(1000)

    names = [path.rpartition("/")[2] for path in disk.paths() if path.endswith(".log.deleted")]
    assert names == ["00000000000000000000.log.deleted"]


def test_segment_without_timestamps_counts_its_age_again_when_the_clock_is_set_back(
    open_log: OpenLog, make_batch: MakeBatch, clock: Any
) -> None:
    clock.step_wall(24 * HOUR_MS)
    log = open_log(retention_ms=HOUR_MS)
    append(log, make_batch(1, timestamp_ms=-1, step_ms=0))
    log.update_high_watermark(1)
    clock.step_wall(-24 * HOUR_MS)

    assert log.apply_retention(NOW_MS) == []
    assert log.apply_retention(NOW_MS + HOUR_MS) == []
    assert log.apply_retention(NOW_MS + HOUR_MS + 1) == [0]
