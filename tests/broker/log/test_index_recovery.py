"""Indexes that are missing after a crash or corrupt are rebuilt from the batches when a log is opened."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.simulator.world.disk import SimulatedDisk
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


def killed_with_two_segments(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk) -> None:
    log = filled(open_log, make_batch, 6, index_interval_bytes=0)
    log.roll(NOW_MS)
    append(log, make_batch(1))
    log.close()
    disk.kill()


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_missing_index_is_rebuilt(open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, suffix: str) -> None:
    killed_with_two_segments(open_log, make_batch, disk)
    path = LOG_0.replace(".log", suffix)
    before = disk.contents(path)
    disk.remove(path)

    open_log(was_clean_shutdown=True, index_interval_bytes=0)

    assert disk.contents(path) == before


CORRUPTIONS = pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(lambda data: None, id="missing"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:-1], id="last-entry-cut"),
        pytest.param(lambda data: data + b"\0", id="a-byte-more"),
        pytest.param(lambda data: data + b"\xff" * 24, id="entries-below-the-base-offset"),
        pytest.param(lambda data: b"\x7f" * len(data), id="positions-past-the-log"),
        pytest.param(lambda data: b"\xff" * len(data), id="all-bits-set"),
    ],
)


@CORRUPTIONS
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crash"])
@pytest.mark.parametrize("segment", [0, 2, 4], ids=["first", "second", "active"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_corrupt_index_is_rebuilt(
    open_log: OpenLog,
    make_batch: MakeBatch,
    disk: SimulatedDisk,
    suffix: str,
    segment: int,
    is_clean: bool,
    corrupt: Callable[[bytes], bytes | None],
) -> None:
    size_bytes = 60_000
    config = {"index_interval_bytes": 0, "max_message_bytes": size_bytes}
    log = open_log(**config)
    for number in range(6):
        if number in (2, 4):
            log.roll(NOW_MS)
        for _ in range(4):
            append(log, make_batch(1, size_bytes=size_bytes - 100, timestamp_ms=NOW_MS + number))
    log.close()
    disk.kill()
    path = f"{DIRECTORY}/{segment * 4:020d}{suffix}"
    before = disk.contents(path)
    assert len(before) >= 12
    corrupted = corrupt(before)
    disk.remove(path)
    if corrupted is not None:
        disk.open(path, create=True).pwritev([corrupted], 0)

    log = open_log(was_clean_shutdown=is_clean, recovery_point=24, **config)

    assert (log.log_end_offset, log.truncated_bytes) == (24, 0)
    assert log.read(segment * 4 + 5, size_bytes_max=1).records
    log.close()
    assert disk.contents(path) == before


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("size_bytes", [None, 11], ids=["missing", "torn"])
def test_log_with_a_rebuilt_index_can_be_truncated(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, suffix: str, size_bytes: int | None
) -> None:
    filled(open_log, make_batch, 6, index_interval_bytes=0).close()
    disk.kill()
    path = LOG_0.replace(".log", suffix)
    if size_bytes is None:
        disk.remove(path)
    else:
        disk.open(path).truncate(size_bytes)
    log = open_log(was_clean_shutdown=True, index_interval_bytes=0)
    append(log, make_batch(1))

    log.truncate_to(4)

    assert log.log_end_offset == 4
    append(log, make_batch(1))


@pytest.mark.parametrize("position", [3, 7], ids=["offset-out-of-the-segments-reach", "offset-that-goes-back"])
def test_log_ends_at_the_corrupt_batch_that_prevents_an_index_rebuild(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk, position: int
) -> None:
    killed_with_two_segments(open_log, make_batch, disk)
    disk.remove(LOG_0.replace(".log", ".index"))
    at = 3 * len(make_batch(1)) + position
    disk.corrupt(LOG_0, at, bytes([disk.contents(LOG_0)[at] ^ 3]))

    assert open_log(was_clean_shutdown=True, index_interval_bytes=0).log_end_offset == 3


def test_index_rebuild_reads_only_the_batches_of_its_segment(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = filled(open_log, make_batch, 100, segment_bytes=20 * len(make_batch(1)), index_interval_bytes=0)
    log.close()
    disk.kill()
    disk.remove(LOG_0.replace(".log", ".index"))
    # Were a later segment recovered, this would end the log.
    later = LOG_0.replace("00.log", "40.log")
    disk.corrupt(later, 200, bytes([disk.contents(later)[200] ^ 1]))

    assert open_log(was_clean_shutdown=True, index_interval_bytes=0).log_end_offset == 100


def test_each_segment_is_walked_once_when_all_indexes_and_snapshots_are_missing(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    def reads(count: int) -> int:
        log = filled(open_log, make_batch, count, segment_bytes=len(make_batch(1)))
        log.close()
        disk.kill()
        for path in [path for path in disk.paths() if path.endswith((".index", ".snapshot"))]:
            disk.remove(path)
        before = disk.operations["read"]
        assert open_log(was_clean_shutdown=True).log_end_offset == len(log.segments())
        return disk.operations["read"] - before

    few = reads(10)

    assert reads(10) <= 2.5 * few, "twice as many segments"


def test_time_index_of_records_without_timestamps_is_empty_and_valid(
    open_log: OpenLog, make_batch: MakeBatch, disk: SimulatedDisk
) -> None:
    log = open_log()
    append(log, make_batch(1, timestamp_ms=-1, step_ms=0))
    log.roll(NOW_MS)
    log.close()
    disk.kill()
    writes = disk.operations["write"]

    open_log(was_clean_shutdown=True)

    assert disk.operations["write"] == writes


@pytest.mark.parametrize(
    "corrupt",
    [
        pytest.param(lambda data: data[:-1], id="last-entry-cut"),
        pytest.param(lambda data: b"\0\7" + data[2:], id="another-version"),
        pytest.param(lambda data: data + b"\0\0" + b"\xff" * 32, id="an-entry-below-the-base-offset"),
    ],
)
@pytest.mark.parametrize("is_active", [True, False], ids=["active", "inactive"])
def test_corrupt_transaction_index_is_rebuilt(
    open_log: OpenLog,
    make_batch: MakeBatch,
    disk: SimulatedDisk,
    is_active: bool,
    corrupt: Callable[[bytes], bytes],
) -> None:
    log = open_log()
    options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    append(log, make_batch(1, producer_id=1, **options))
    log.roll(NOW_MS)  # the transaction began in the segment before
    marker = build_end_transaction_marker(
        ControlRecordType.ABORT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    append(log, bytearray(marker), origin=AppendOrigin.COORDINATOR)
    if not is_active:
        log.roll(NOW_MS)
    log.close()
    disk.kill()
    path = f"{DIRECTORY}/{1:020d}.txnindex"
    before = disk.contents(path)
    disk.remove(path)
    disk.open(path, create=True).pwritev([corrupt(before)], 0)

    open_log(was_clean_shutdown=True)

    assert disk.contents(path) == before


def test_index_has_an_entry_every_64_kib_above_that_index_interval(open_log: OpenLog, make_batch: MakeBatch) -> None:
    """With index.interval.bytes at its maximum every fetch would walk all headers of a segment."""
    log = open_log(index_interval_bytes=2**31 - 1)
    size_bytes = len(make_batch(1, size_bytes=1_000))
    for _ in range(300):
        log.append_as_leader(make_batch(1, size_bytes=1_000), leader_epoch=0, now_ms=NOW_MS)
    positions = [0, *(position for _, position in log.segments()[0].offset_index.entries()), 300 * size_bytes]

    assert max(b - a for a, b in itertools.pairwise(positions)) <= 65_536 + 2 * size_bytes
    log.close()
    assert open_log(was_clean_shutdown=True, index_interval_bytes=2**31 - 1).log_end_offset == 300
