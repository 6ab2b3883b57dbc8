"""Offset lookups by timestamp run in slices, and tolerate wrong headers and concurrent truncation."""

from collections.abc import Callable
from struct import pack_into

import pytest

from ottla.errors import CorruptRecordError
from ottla.log.partition_log import PartitionLog, TimestampAndOffset
from ottla.purgatory.memory_budget import MemoryBudget
from ottla.purgatory.off_loop import OffLoop, in_place
from ottla.purgatory.steps import Steps, run_to_end
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import SimulatedClock
from ottla.wire.records import Compression, Record, build_batch, crc32c

NOW_MS = 1_700_000_000_000
OFF_LOOP = in_place(SimulatedClock())

OpenLog = Callable[..., PartitionLog]
MakeBatch = Callable[..., bytearray]


def append(log: PartitionLog, batch: bytearray | bytes, *, leader_epoch: int = 0) -> None:
    log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=NOW_MS)


def test_offsets_are_found_by_timestamp(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log(segment_bytes=400, index_interval_bytes=0)
    for index in range(6):
        append(log, make_batch(2, timestamp_ms=NOW_MS + 100 * index), leader_epoch=index)

    def found(timestamp_ms: int) -> tuple[int, int, int] | None:
        result = run_to_end(log.offset_for_timestamp(timestamp_ms, OFF_LOOP))
        return None if result is None else (result.timestamp_ms - NOW_MS, result.offset, result.leader_epoch)

    assert found(0) == (0, 0, 0)
    assert found(NOW_MS) == (0, 0, 0)
    assert found(NOW_MS + 1) == (1, 1, 0)
    assert found(NOW_MS + 2) == (100, 2, 1)
    assert found(NOW_MS + 501) == (501, 11, 5)
    assert found(NOW_MS + 502) is None


def test_offsets_by_timestamp_start_at_the_log_start(open_log: OpenLog, make_batch: MakeBatch) -> None:
    log = open_log()
    append(log, make_batch(4))
    log.update_high_watermark(4)
    log.delete_records_before(2)

    found = run_to_end(log.offset_for_timestamp(NOW_MS, OFF_LOOP))

    assert found is not None
    assert found.offset == 2


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.label)
def test_record_with_the_newest_timestamp_is_found_anywhere(open_log: OpenLog, compression: Compression) -> None:
    log = open_log(segment_bytes=500)
    assert run_to_end(log.offset_of_max_timestamp(OFF_LOOP)) is None
    for times in ([5, 1], [3, 9], [9, 2], [8, 7]):
        records = [Record(index, NOW_MS + time, None, b"v" * 100) for index, time in enumerate(times)]
        append(log, build_batch(records, compression=compression), leader_epoch=2)
        log.roll(NOW_MS)

    found = run_to_end(log.offset_of_max_timestamp(OFF_LOOP))

    assert found is not None
    assert (found.timestamp_ms - NOW_MS, found.offset, found.leader_epoch) == (9, 3, 2)


def with_wrong_header(batch: bytes, base_offset: int) -> bytearray:
    """Return a batch as another leader may have stored it: its header's newest timestamp is an hour too late."""
    data = bytearray(batch)
    pack_into(">q", data, 0, base_offset)
    pack_into(">i", data, 12, 0)
    pack_into(">q", data, 35, NOW_MS + 3_600_000)
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.label)
def test_lookup_tolerates_wrong_timestamps_in_headers(open_log: OpenLog, compression: Compression) -> None:
    log = open_log(index_interval_bytes=0)
    records = [Record(index, NOW_MS, None, b"v" * 100) for index in range(300)]
    for number in range(3):
        log.append_as_follower(with_wrong_header(build_batch(records, compression=compression), 300 * number))
    append(log, build_batch([Record(0, NOW_MS + 1, None, b"v")]))

    assert run_to_end(log.offset_for_timestamp(NOW_MS + 1, OFF_LOOP)) == TimestampAndOffset(NOW_MS + 1, 900, 0)
    assert run_to_end(log.offset_for_timestamp(NOW_MS + 2, OFF_LOOP)) is None


def drive(
    steps: Steps[TimestampAndOffset | None],
    background: SimulatedBackground,
    between: Callable[[int], None] = lambda _: None,
) -> tuple[TimestampAndOffset | None, int]:
    """Run ``steps`` to their end with work that completes late; return the result and how many slices there were."""
    value: object = None
    slices = 0
    while True:
        try:
            wait = steps.send(value)
        except StopIteration as end:
            return end.value, slices
        slices += 1
        between(slices)
        background.complete_work()
        value = None if wait is None else wait.value


def test_records_of_a_batch_with_a_wrong_header_are_walked_in_slices_and_read_off_the_loop(open_log: OpenLog) -> None:
    background, memory = SimulatedBackground(), MemoryBudget(1)
    off_loop = OffLoop(background, memory, SimulatedClock())
    log = open_log()
    records = [Record(index, NOW_MS, b"k" * (index % 3), b"") for index in range(20_000)]
    log.append_as_follower(with_wrong_header(build_batch(records, compression=Compression.ZSTD), 0))

    found, slices = drive(log.offset_for_timestamp(NOW_MS + 1, off_loop), background)

    assert found is None
    assert slices >= 20_000 / 256
    assert background.run_count >= 2
    assert memory.held_bytes == 0


def test_lookup_restarts_when_its_segment_is_removed(open_log: OpenLog, make_batch: MakeBatch) -> None:
    background = SimulatedBackground()
    off_loop = OffLoop(background, MemoryBudget(1), SimulatedClock())
    log = open_log(segment_bytes=20_000, index_interval_bytes=0)
    for number in range(3):
        append(log, make_batch(1, size_bytes=18_000, timestamp_ms=NOW_MS + 1_000 * number))

    def truncate(slices: int) -> None:
        if slices == 2:
            log.truncate_fully_and_start_at(7)
            append(log, make_batch(1, timestamp_ms=NOW_MS + 500))

    found, _ = drive(log.offset_for_timestamp(NOW_MS + 1, off_loop), background, truncate)

    assert found is not None
    assert (found.offset, found.timestamp_ms - NOW_MS) == (7, 500)


def test_corrupt_batch_fails_the_lookup_not_the_log(open_log: OpenLog) -> None:
    log = open_log()
    data = with_wrong_header(build_batch([Record(0, NOW_MS, None, b"v" * 99)], compression=Compression.GZIP), 0)
    data[-4:] = b"junk"
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    log.append_as_follower(data)

    with pytest.raises(CorruptRecordError):
        run_to_end(log.offset_for_timestamp(NOW_MS + 1, OFF_LOOP))
    assert log.failure is None


@pytest.mark.parametrize("wanted", [0, 1, 63, 64, 500, 2_999])
@pytest.mark.parametrize("sizes", ["equal", "different"])
@pytest.mark.parametrize("log_start", [0, 700])
def test_first_record_with_a_timestamp_is_found_anywhere(
    open_log: OpenLog, wanted: int, sizes: str, log_start: int
) -> None:
    log = open_log()
    records = [
        Record(index, NOW_MS + (index >= wanted) * 10, b"k" * (index % 3 if sizes == "different" else 1), b"v")
        for index in range(3_000)
    ]
    append(log, build_batch(records))
    log.update_high_watermark(3_000)
    log.delete_records_before(log_start)

    found = run_to_end(log.offset_for_timestamp(NOW_MS + 10, OFF_LOOP))

    assert found is not None
    assert found.offset == max(wanted, log_start)


def test_records_are_found_across_gaps_of_compaction(open_log: OpenLog) -> None:
    log = open_log()
    records = [Record(3 * index, NOW_MS + index, b"k", b"v") for index in range(200)]
    log.append_as_follower(build_batch(records, leader_epoch=0))

    found = run_to_end(log.offset_for_timestamp(NOW_MS + 150, OFF_LOOP))

    assert found is not None
    assert found.offset == 450
