"""Opening a log after a clean stop and after a crash: trusted, checked and truncated parts."""

import errno
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.log.config import LogConfig
from ottla.log.open_files import OpenFiles
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import TopicPartition
from ottla.wire.records import ControlRecordType, build_end_transaction_marker

NOW_MS = 1_700_000_000_000
DIRECTORY = "/data/topic-0"
LOG_0 = f"{DIRECTORY}/00000000000000000000.log"

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray, **options: Any) -> None:
    log.append_as_leader(batch, leader_epoch=options.pop("leader_epoch", 0), now_ms=NOW_MS, **options)


def filled(open_log: OpenLog, make_batch: MakeBatch, count: int, **config: Any) -> PartitionLog:
    log = open_log(**config)
    for _ in range(count):
        append(log, make_batch(1))
    return log


@pytest.mark.parametrize("cut_bytes", [1, 60, 100, 168], ids=lambda size: f"{size}-bytes-short")
def test_torn_tail_is_truncated(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, cut_bytes: int) -> None:
    filled(open_log, make_batch, 3)
    size_bytes = len(make_batch(1))
    file = disk.open(LOG_0)
    file.truncate(3 * size_bytes - cut_bytes)
    disk.kill()

    log = open_log()

    assert (log.log_end_offset, log.truncated_bytes) == (2, size_bytes - cut_bytes)
    append(log, make_batch(1))
    assert len(disk.contents(LOG_0)) == 3 * size_bytes


@pytest.mark.parametrize("position", [8, 16, 17, 21, 30, 168], ids=lambda position: f"byte-{position}")
def test_corrupt_batch_ends_the_log(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, position: int
) -> None:
    filled(open_log, make_batch, 3)
    size_bytes = len(make_batch(1))
    at = size_bytes + position
    disk.kill()
    disk.corrupt(LOG_0, at, bytes([disk.contents(LOG_0)[at] ^ 0x81]))

    assert open_log().log_end_offset == 1


@pytest.mark.parametrize("tail", [b"\0" * 10, b"\0" * 5000, b"\xff" * 200], ids=["few-zeros", "many-zeros", "ones"])
def test_bytes_that_are_no_batch_are_truncated(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, tail: bytes
) -> None:
    filled(open_log, make_batch, 2)
    disk.kill()
    disk.corrupt(LOG_0, len(disk.contents(LOG_0)), tail)

    log = open_log()

    assert (log.log_end_offset, log.truncated_bytes) == (2, len(tail))


@pytest.mark.parametrize(
    ("position", "byte"),
    [
        pytest.param(0, 0x80, id="offset-below-zero"),
        pytest.param(3, 0x01, id="offset-out-of-the-segments-reach"),
        pytest.param(6, 0x01, id="gap"),
        pytest.param(12, 0x80, id="leader-epoch-below-zero"),
        pytest.param(15, 0x80, id="leader-epoch-that-goes-back"),
    ],
)
def test_header_fields_outside_of_the_crc_are_validated(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, position: int, byte: int
) -> None:
    """Found by the simulator: a flipped bit in an offset, far from all others, ended the start."""
    log = open_log()
    for leader_epoch in (5, 128, 128):
        append(log, make_batch(1), leader_epoch=leader_epoch)
    at = len(make_batch(1)) + position
    disk.kill()
    disk.corrupt(LOG_0, at, bytes([disk.contents(LOG_0)[at] ^ byte]))
    log = open_log()

    assert log.log_end_offset == 1
    append(log, make_batch(1), leader_epoch=129)


def test_segments_after_a_corrupt_one_are_removed(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 6, segment_bytes=2 * len(make_batch(1)))
    disk.kill()
    disk.corrupt(f"{DIRECTORY}/00000000000000000002.log", 100, b"!")

    log = open_log(segment_bytes=2 * len(make_batch(1)))

    assert log.log_end_offset == 2
    assert [segment.base_offset for segment in log.segments()] == [0, 2]


def test_records_below_the_recovery_point_are_not_read(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 4, segment_bytes=2 * len(make_batch(1))).flush()
    disk.kill()
    disk.corrupt(LOG_0, 100, b"!")

    assert open_log(recovery_point=2).log_end_offset == 4
    disk.kill()
    assert open_log(recovery_point=1).log_end_offset == 0


def test_clean_shutdown_skips_recovery(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = filled(open_log, make_batch, 100, segment_bytes=40 * len(make_batch(1)), index_interval_bytes=500)
    log.close()
    disk.kill()
    before = disk.operations["read"]

    again = open_log(was_clean_shutdown=True)

    assert (again.log_end_offset, again.truncated_bytes) == (100, 0)
    assert disk.operations["read"] - before < 20, "only the index's end and the headers after it"


def test_clean_shutdown_marker_with_a_torn_tail_is_recovered(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 3).close()
    disk.kill()
    disk.corrupt(LOG_0, len(disk.contents(LOG_0)), b"foreign bytes!!")

    assert open_log(was_clean_shutdown=True).log_end_offset == 3


def test_log_that_was_never_written_to_needs_no_recovery_and_no_sync(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    open_log()
    disk.kill()
    opened = disk.operations["open"]
    log = open_log()
    opened = disk.operations["open"] - opened
    log.close()

    assert disk.operations["sync"] == 0
    assert opened == 2, "the epochs and partition.metadata, which might be there"
    log = open_log()
    append(log, make_batch(2))
    log.close()
    disk.crash()
    assert open_log(was_clean_shutdown=True).log_end_offset == 2


def test_index_of_an_empty_log_is_rebuilt_after_a_crash(open_log: OpenLog, disk: SimulatedDisk) -> None:
    open_log()
    disk.remove(f"{DIRECTORY}/{0:020d}.index")
    disk.kill()
    open_log()

    assert disk.exists(f"{DIRECTORY}/{0:020d}.index")


@pytest.mark.parametrize("kept", ["index", "epochs", "all"])
def test_empty_log_that_was_written_to_is_recovered(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, kept: str
) -> None:
    log = open_log(index_interval_bytes=1)
    append(log, make_batch(2))
    append(log, make_batch(2))
    log.close()
    epochs = f"{DIRECTORY}/leader-epoch-checkpoint"
    disk.open(f"{DIRECTORY}/{0:020d}.log").truncate(0)
    if kept == "index":
        disk.remove(epochs)
    elif kept == "epochs":
        disk.open(f"{DIRECTORY}/{0:020d}.index").truncate(0)
    disk.kill()
    syncs = disk.operations["sync"]
    log = open_log()
    log.close()

    assert log.log_end_offset == 0
    assert disk.operations["sync"] > syncs
    assert disk.size_bytes(f"{DIRECTORY}/{0:020d}.index") == 0


def test_indexes_without_a_log_are_removed(open_log: OpenLog, disk: SimulatedDisk) -> None:
    open_log().close()
    orphan = f"{DIRECTORY}/00000000000000000007.index"
    disk.open(orphan, create=True)

    open_log(was_clean_shutdown=True)

    assert not disk.exists(orphan)


def test_foreign_files_are_ignored(open_log: OpenLog, disk: SimulatedDisk) -> None:
    open_log().close()
    mine = f"{DIRECTORY}/quorum-state"
    disk.open(mine, create=True)

    open_log(was_clean_shutdown=True)

    assert disk.exists(mine)


def test_log_whose_end_is_below_its_start_is_recreated_empty(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 3)
    disk.kill()

    log = open_log(log_start_offset=10)

    assert (log.log_start_offset, log.log_end_offset, len(log.segments())) == (10, 10, 1)


def test_log_start_is_at_least_the_base_offset_of_the_first_segment(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = filled(open_log, make_batch, 4, segment_bytes=2 * len(make_batch(1)))
    log.update_high_watermark(4)
    log.delete_records_before(2)
    log.apply_retention(NOW_MS)
    log.close()
    disk.kill()

    assert open_log(was_clean_shutdown=True).log_start_offset == 2


@pytest.mark.parametrize("left", [b"garbage", b"", b"0\n"], ids=["corrupt", "empty", "truncated"])
def test_leader_epochs_are_rebuilt_from_the_batches(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, left: bytes
) -> None:
    log = open_log()
    for epoch in (2, 2, 5):
        append(log, make_batch(1), leader_epoch=epoch)
    log.assign_epoch_start_offset(9, 3)
    disk.kill()
    file = disk.open(f"{DIRECTORY}/leader-epoch-checkpoint")
    file.truncate(0)
    file.pwritev([left], 0)
    file.close()

    again = open_log(recovery_point=3)

    assert [again.epoch_for_offset(offset) for offset in range(3)] == [2, 2, 5]
    assert again.latest_epoch == 5, "epoch 9 has no records"


@pytest.mark.parametrize("was_clean_shutdown", [True, False], ids=["clean-stop", "kill"])
def test_log_without_records_of_jvm_kafka_is_opened(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, was_clean_shutdown: bool
) -> None:
    """After a kill the indexes are preallocated with zeros; leader-epoch-checkpoint is empty in both cases."""
    preallocated = {"index": 10_485_760, "timeindex": 10_485_756} if not was_clean_shutdown else {}
    disk.make_directory(DIRECTORY)
    for suffix in ("log", "index", "timeindex"):
        disk.open(f"{DIRECTORY}/{0:020d}.{suffix}", create=True).truncate(preallocated.get(suffix, 0))
    disk.open(f"{DIRECTORY}/leader-epoch-checkpoint", create=True).close()

    log = open_log(was_clean_shutdown=was_clean_shutdown)
    append(log, make_batch(2), leader_epoch=4)
    log.close()

    again = open_log(was_clean_shutdown=True)
    assert (again.log_start_offset, again.log_end_offset, again.latest_epoch) == (0, 2, 4)
    assert disk.size_bytes(f"{DIRECTORY}/{0:020d}.index") == 0


def test_corrupt_epoch_file_after_a_clean_stop_is_an_error(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 1).close()
    disk.kill()
    disk.corrupt(f"{DIRECTORY}/leader-epoch-checkpoint", 0, b"garbage")

    with pytest.raises(StorageError, match="leader-epoch-checkpoint"):
        open_log(was_clean_shutdown=True)


def test_epoch_file_left_unsynced_by_a_crash_is_synced_by_a_clean_stop(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    """Seed 324: killed, started, stopped in order; then power was lost, and the file torn in spite of the marker."""
    append(open_log(), make_batch(1), leader_epoch=3)
    disk.kill()
    open_log().close()
    disk.crash()

    assert open_log(was_clean_shutdown=True).latest_epoch == 3


def test_read_error_on_the_epoch_file_is_not_corruption(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    filled(open_log, make_batch, 1)
    disk.kill()
    disk.fail_next("open", errno.EIO, path_part="leader-epoch-checkpoint")

    with pytest.raises(StorageError, match="cannot open"):
        open_log()


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
def test_producers_are_restored_after_a_restart(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, is_clean: bool
) -> None:
    log = open_log(segment_bytes=3 * len(make_batch(1)))
    for sequence in range(7):
        append(log, make_batch(1, producer_id=3, producer_epoch=1, base_sequence=sequence))
    if is_clean:
        log.close()
    disk.kill()

    again = open_log(was_clean_shutdown=is_clean)

    (entry,) = again.active_producers()
    assert (entry.producer_epoch, entry.last_sequence, entry.last_data_offset) == (1, 6, 6)
    for sequence in (2, 6):
        repeated = make_batch(1, producer_id=3, producer_epoch=1, base_sequence=sequence)
        assert again.append_as_leader(repeated, leader_epoch=0, now_ms=NOW_MS).first_offset == sequence
    dropped = make_batch(1, producer_id=3, producer_epoch=1, base_sequence=1)
    with pytest.raises(KafkaError) as raised:
        again.append_as_leader(dropped, leader_epoch=0, now_ms=NOW_MS)
    assert raised.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_corrupt_snapshot_is_rebuilt_from_the_log(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, make_batch(1, producer_id=3, producer_epoch=1, base_sequence=0))
    log.close()
    disk.kill()
    disk.corrupt(f"{DIRECTORY}/00000000000000000001.snapshot", 8, b"!")

    assert [entry.producer_id for entry in open_log(was_clean_shutdown=True).active_producers()] == [3]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
def test_transactions_are_restored_after_a_restart(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, is_clean: bool
) -> None:
    log = open_log()
    options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, make_batch(1, producer_id=1, **options))
    marker = build_end_transaction_marker(
        ControlRecordType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    append(log, bytearray(marker), origin=AppendOrigin.COORDINATOR)
    append(log, make_batch(1, producer_id=2, **options))
    if is_clean:
        log.close()
    disk.kill()

    again = open_log(was_clean_shutdown=is_clean)
    again.update_high_watermark(3)

    assert again.last_stable_offset == 2
    found = again.read(0, size_bytes_max=1000, with_aborted_transactions=True).aborted_transactions
    assert found is not None
    assert [entry[:3] for entry in found] == [(1, 0, 1)]


def test_lost_end_of_a_segment_removes_the_later_segments(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    size_bytes = len(make_batch(1))
    filled(open_log, make_batch, 4, segment_bytes=2 * size_bytes)
    disk.open(LOG_0).truncate(size_bytes)
    disk.kill()

    log = open_log(segment_bytes=2 * size_bytes)

    assert log.log_end_offset == 1


def test_gap_of_compaction_is_not_a_loss(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    size_bytes = len(make_batch(1))
    filled(open_log, make_batch, 4, segment_bytes=2 * size_bytes)
    disk.open(LOG_0).truncate(size_bytes)
    disk.kill()

    log = open_log(segment_bytes=2 * size_bytes, cleanup_policy=frozenset({"compact"}))

    assert log.log_end_offset == 4


def test_io_error_names_the_path(open_log: OpenLog, disk: SimulatedDisk) -> None:
    disk.fail_next("list", errno.EIO)

    with pytest.raises(StorageError, match="/data/topic-0"):
        open_log()


def test_no_file_stays_open_after_the_start(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, clock: Any
) -> None:

    filled(open_log, make_batch, 6, segment_bytes=2 * len(make_batch(1))).close()
    disk.kill()
    open_files = OpenFiles()

    PartitionLog.open(
        disk=disk,
        directory=DIRECTORY,
        topic_partition=TopicPartition("topic", 0),
        config=LogConfig(),
        clock=clock,
        open_files=open_files,
    )

    assert len(open_files) == 0


@pytest.mark.parametrize("recovery_point", [0, 2], ids=["walked", "below-the-recovery-point"])
def test_truncation_undone_by_a_power_cut_ends_the_log_where_it_was_truncated(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, recovery_point: int
) -> None:
    log = filled(open_log, make_batch, 4)
    stale = disk.contents(LOG_0)
    log.truncate_to(2)
    log.roll(NOW_MS)
    append(log, make_batch(1), leader_epoch=1)
    disk.kill()
    file = disk.open(LOG_0)
    file.pwritev([stale], 0)
    file.close()

    log = open_log(recovery_point=recovery_point)

    assert (log.log_end_offset, log.latest_epoch) == (2, 0)
    assert disk.contents(LOG_0) == stale[: len(stale) // 2]
    assert [segment.base_offset for segment in log.segments()] == [0]
