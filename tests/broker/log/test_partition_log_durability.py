"""Syncs of a partition's log, and disk failures."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, ShortageError, StorageError
from ottla.log.partition_log import PartitionLog
from ottla.simulator.world.disk import SimulatedDisk

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray | bytes, **options: Any) -> tuple[int, int]:
    result = log.append_as_leader(batch, leader_epoch=options.pop("leader_epoch", 0), now_ms=NOW_MS, **options)
    return result.first_offset, result.last_offset


# --- durability


def test_append_does_not_sync_by_default(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log()
    before = disk.operations["sync"]
    for _ in range(10):
        append(log, make_batch(1))

    assert (disk.operations["sync"], log.recovery_point) == (before, 0)


def test_append_takes_one_write(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log(index_interval_bytes=0)
    append(log, make_batch(1))
    before = disk.operations.copy()

    append(log, make_batch(1))

    assert disk.operations - before == {"write": 1}


def test_flush_messages_confirms_after_a_sync_off_the_loop(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(flush_messages=3)

    append(log, make_batch(2))
    assert log.confirmable_offset == 2
    syncs = disk.operations["sync"]
    append(log, make_batch(1))
    assert (log.confirmable_offset, disk.operations["sync"]) == (0, syncs)
    log.flush_later(lambda error: None)
    append(log, make_batch(1))
    disk.complete_syncs()
    assert (log.recovery_point, log.confirmable_offset) == (3, 4)


def test_copy_with_the_logs_name_confirms_more_once_that_name_is_synced(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    """Before that, a power cut makes the replaced files the log again, which may have synced less."""
    for path in ("/data", "/data/copy", "/data/copy/topic-0-future"):
        disk.make_directory(path)
    log = open_log(ottla_acks_fsync=True)
    copy = open_log("/data/copy/topic-0-future", ottla_acks_fsync=True)
    for each, synced in ((log, 2), (copy, 4)):
        append(each, make_batch(synced))
        each.flush()
    append(log, make_batch(2))

    copy.rename_directory("/data/copy/topic-0")
    log.exchange_files(copy)
    assert (log.confirmable_offset, log.log_end_offset) == (2, 4)
    log.flush_later(lambda error: None)
    disk.complete_syncs()

    assert log.confirmable_offset == 4
    (segment,) = log.segments()
    assert disk.survives_power_cut(segment.path, len(disk.contents(segment.path)))


def test_truncation_cancels_the_sync_due_by_flush_messages(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(flush_messages=1)
    for _ in range(4):
        append(log, make_batch(1))

    log.truncate_to(2)
    log.flush_later(lambda error: None)
    disk.complete_syncs()

    assert (log.recovery_point, log.confirmable_offset) == (2, 2)


def test_acks_fsync_confirms_synced_records_only(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log(ottla_acks_fsync=True)
    append(log, make_batch(2))
    log.flush_later(lambda error: None)
    append(log, make_batch(1))
    assert log.confirmable_offset == 0

    disk.complete_syncs()

    assert (log.confirmable_offset, log.log_end_offset) == (2, 3)


def test_flush_ms_syncs_off_the_loop_by_the_monotonic_clock(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, clock: Any
) -> None:
    log = open_log(flush_ms=1000)
    append(log, make_batch(1))

    clock.step_wall(-3_600_000)
    log.tick(999)
    assert disk.complete_syncs() == 0
    log.tick(1000)
    log.tick(1001)

    assert (disk.complete_syncs(), log.recovery_point) == (1, 1)


def test_sync_does_not_cover_records_written_after_a_truncation(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, make_batch(5))
    log.flush_later(lambda error: None)
    log.truncate_to(0)
    append(log, make_batch(5))

    disk.complete_syncs()

    assert log.recovery_point == 0


def test_flush_does_not_rely_on_a_sync_in_progress(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, make_batch(2))
    log.flush()
    log.truncate_to(0)
    log.flush_later(lambda error: None)

    log.flush()

    assert disk.durable_contents(f"{DIRECTORY}/00000000000000000000.log") == b""


def test_sync_off_the_loop_does_not_repeat_earlier_syncs(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    counts = []
    for _ in range(6):
        append(log, make_batch(2))
        log.roll(NOW_MS)
        before = disk.operations["sync"]
        disk.complete_syncs()
        counts.append(disk.operations["sync"] - before)

    log.flush_later(lambda error: None)
    before = disk.operations["sync"]
    disk.complete_syncs()

    assert len(set(counts[1:])) == 1, "the segment that was rolled, its indexes, the new one, the directory"
    assert disk.operations["sync"] - before == 1, "the active segment"


def test_sync_does_not_cover_a_segment_that_was_sealed_again_meanwhile(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log(index_interval_bytes=1)
    for _ in range(3):
        append(log, make_batch(2))
    log.roll(NOW_MS)
    log.truncate_to(4)
    for _ in range(3):
        append(log, make_batch(3))
    log.roll(NOW_MS)
    disk.complete_syncs()

    log.flush()

    path = f"{DIRECTORY}/00000000000000000000.index"
    assert disk.durable_contents(path) == disk.contents(path)


def test_flush_later_reports_when_it_is_done(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, make_batch(5))
    done: list[StorageError | None] = []

    log.flush_later(done.append)
    assert done == []
    disk.complete_syncs()

    assert (done, log.recovery_point) == ([None], 5)


# --- disk failures


@pytest.mark.parametrize(
    ("operation", "error_number"),
    [
        pytest.param("write", errno.ENOSPC, id="no-space"),
        pytest.param("write", errno.EIO, id="write-error"),
    ],
)
def test_failed_write_fails_the_log(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, operation: str, error_number: int
) -> None:
    log = open_log()
    append(log, make_batch(2))
    disk.fail_next(operation, error_number, path_part=".log")

    with pytest.raises(StorageError, match=r"cannot write .* to /data/topic-0/0{20}\.log"):
        append(log, make_batch(2))
    with pytest.raises(StorageError):
        append(log, make_batch(2))

    assert log.log_end_offset == 2
    disk.kill()
    recovered = open_log()
    assert (recovered.log_end_offset, recovered.truncated_bytes > 0) == (2, True)


def test_failed_sync_ends_the_log_and_is_not_retried(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, make_batch(2))
    disk.fail_next("sync", errno.EIO)
    done: list[StorageError | None] = []

    log.flush_later(done.append)
    disk.complete_syncs()

    assert isinstance(done[0], StorageError)
    assert (log.failure, log.recovery_point) == (done[0], 0)
    with pytest.raises(StorageError):
        log.flush()


def test_failed_read_fails_the_log(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = open_log()
    append(log, make_batch(2))
    disk.fail_next("read", errno.EIO)

    with pytest.raises(StorageError, match="cannot read"):
        log.read(0, size_bytes_max=100)

    assert log.failure is not None


# --- shortages


@pytest.mark.parametrize("error_number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("path_part", [".log", ".index", ".timeindex", "leader-epoch-checkpoint", ".snapshot"])
def test_shortage_of_descriptors_or_memory_rejects_an_append_and_the_log_stays_usable(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, path_part: str, error_number: int
) -> None:
    """A roll opens all of these files."""
    log = open_log(segment_bytes=300)
    append(log, make_batch(2), leader_epoch=0)
    disk.fail_next("open", error_number, path_part=path_part)

    with pytest.raises(ShortageError) as raised:
        log.append_as_leader(make_batch(2), leader_epoch=1, now_ms=NOW_MS)
    assert log.failure is None
    log.append_as_leader(make_batch(2), leader_epoch=1, now_ms=NOW_MS)
    log.close()
    disk.kill()

    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    again = open_log(was_clean_shutdown=True)
    assert (again.log_end_offset, again.latest_epoch) == (4, 1)
    assert [again.epoch_for_offset(offset) for offset in (0, 2)] == [0, 1]
    assert len(again.segments()) == 2


def test_duplicates_are_known_after_a_power_cut_when_the_segments_of_their_producer_are_deleted(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log = open_log(retention_bytes=0)
    log.append_as_leader(make_batch(1, **producer), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    disk.complete_syncs()
    log.update_high_watermark(1)
    assert log.apply_retention(NOW_MS) == [0]
    disk.sync_directory(log.directory)
    disk.crash()

    log = open_log(log_start_offset=1, retention_bytes=0)

    assert log.append_as_leader(make_batch(1, **producer), leader_epoch=0, now_ms=NOW_MS).is_duplicate


@pytest.mark.parametrize("is_active", [True, False], ids=["active", "rolled"])
def test_retention_keeps_the_last_copy_of_a_producer_until_its_snapshot_is_synced(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, is_active: bool
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log = open_log(retention_bytes=0)
    log.append_as_leader(make_batch(1, **producer), leader_epoch=0, now_ms=NOW_MS)
    log.flush()
    if not is_active:
        log.roll(NOW_MS)
    log.update_high_watermark(1)

    assert log.apply_retention(NOW_MS) == [], "the snapshot of the roll is not on the disk yet"
    assert log.log_start_offset == 0
    disk.complete_syncs()
    assert log.apply_retention(NOW_MS) == [0]
    assert log.log_start_offset == 1


def test_retention_keeps_the_last_copy_of_a_producer_until_its_snapshot_of_a_recovery_is_synced(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    """Found by the model of transactions: recovery writes the snapshots again, and a power cut may corrupt them."""
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    log = open_log(retention_bytes=0)
    log.append_as_leader(make_batch(1, **producer), leader_epoch=0, now_ms=NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(make_batch(1), leader_epoch=0, now_ms=NOW_MS)
    disk.kill()
    log = open_log(retention_bytes=0)
    log.update_high_watermark(2)

    assert log.apply_retention(NOW_MS) == [], "neither the recovery's snapshot nor that of the roll is on the disk yet"
    log.flush()
    assert log.apply_retention(NOW_MS) == [0, 1]
