"""A producer's batch is checked at once or in steps, with the same result; long work does not block the loop."""

from collections.abc import Callable, Sequence
from struct import pack_into
from typing import Any

import pytest

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError
from ottla.log.batch_check import CheckedBatch, check_at_once, check_in_one_go, check_in_steps
from ottla.log.config import LogConfig
from ottla.log.validation import RecordValidationError
from ottla.purgatory.memory_budget import MemoryBudget
from ottla.purgatory.off_loop import OffLoop
from ottla.purgatory.steps import Steps
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import TopicPartition
from ottla.wire.records import Compression, Record, build_batch, compress, crc32c, parse_batch, read_records

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000
TOPIC_PARTITION = TopicPartition("topic", 0)
CODECS = pytest.mark.parametrize("compression", list(Compression), ids=lambda kind: kind.label)


def batch_with(deltas_ms: Sequence[int], *, newest_ms: int | None = None, **options: Any) -> bytearray:
    """Return a batch with these timestamps after NOW_MS; ``newest_ms`` overrides the one in its header."""
    records = [Record(index, NOW_MS + delta, b"k", b"v") for index, delta in enumerate(deltas_ms)]
    data = bytearray(build_batch(records, **options))
    if newest_ms is not None:
        pack_into(">q", data, 35, newest_ms)
        pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def check_both(data: bytes | bytearray, config: LogConfig) -> CheckedBatch:
    """Check at once, if that is possible, and in steps; the results must not differ."""
    in_steps = check_in_one_go(bytes(data), config, TOPIC_PARTITION, NOW_MS, SimulatedClock())
    at_once = check_at_once(bytes(data), config, TOPIC_PARTITION, NOW_MS)
    if at_once is not None:
        assert at_once.newest_timestamp_ms == in_steps.newest_timestamp_ms
        assert read_records(at_once.batch, size_bytes_max=1 << 20) == read_records(
            in_steps.batch, size_bytes_max=1 << 20
        )
    return in_steps


class TickingClock(SimulatedClock):
    """A clock that advances by ``tick_ms`` with each reading."""

    def __init__(self, tick_ms: int) -> None:
        super().__init__()
        self._tick_ms = tick_ms

    def monotonic_ns(self) -> int:
        self.advance(self._tick_ms)
        return super().monotonic_ns()


def drive(
    steps: Steps[CheckedBatch], background: SimulatedBackground, each: Callable[[], object] = lambda: None
) -> tuple[CheckedBatch, int]:
    """Run ``steps`` to the end; return the result and the number of slices."""
    value: object = None
    slices = 0
    while True:
        try:
            wait = steps.send(value)
        except StopIteration as end:
            return end.value, slices
        slices += 1
        each()
        background.complete_work()
        value = None if wait is None else wait.value


# --- timestamps


@CODECS
@pytest.mark.parametrize(
    ("deltas_ms", "claimed_ms"),
    [
        pytest.param([0, 500], 0, id="too-early"),
        pytest.param([0, 5], 1_000, id="too-late"),
        pytest.param([0, 5], DAY_MS, id="in-the-future"),
        pytest.param([5, 0, -DAY_MS], DAY_MS, id="newest-first"),
        pytest.param([0, 100_000, 3], 7, id="three-bytes"),
        pytest.param(list(range(0, 900, 3)), 7, id="many"),
    ],
)
def test_newest_timestamp_of_a_header_is_corrected(
    deltas_ms: list[int], claimed_ms: int, compression: Compression
) -> None:
    """JVM Kafka 4.3 accepts such batches and stores the newest timestamp of the records."""
    data = batch_with(deltas_ms, newest_ms=NOW_MS + claimed_ms, compression=compression)

    assert check_both(data, LogConfig()).newest_timestamp_ms == NOW_MS + max(deltas_ms)


@CODECS
@pytest.mark.parametrize(
    ("deltas_ms", "config"),
    [
        pytest.param([0, DAY_MS], {}, id="ahead"),
        pytest.param([0, -DAY_MS], {"message_timestamp_before_max_ms": 3_600_000}, id="behind"),
    ],
)
def test_timestamp_limits_apply_to_the_records_not_the_header(
    deltas_ms: list[int], config: dict[str, Any], compression: Compression
) -> None:
    data = batch_with(deltas_ms, newest_ms=NOW_MS, compression=compression)

    for check in (
        lambda: check_at_once(data, LogConfig(**config), TOPIC_PARTITION, NOW_MS),
        lambda: check_in_one_go(data, LogConfig(**config), TOPIC_PARTITION, NOW_MS, SimulatedClock()),
    ):
        with pytest.raises(RecordValidationError) as rejection:
            check()
        assert rejection.value.code is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_ignores_timestamps_of_the_producer() -> None:
    data = batch_with([0, DAY_MS], newest_ms=NOW_MS)

    check_both(data, LogConfig(message_timestamp_type="LogAppendTime"))


def test_records_without_timestamps_stay_without() -> None:
    records = [Record(index, -1, b"k", b"v") for index in range(3)]

    assert check_both(build_batch(records), LogConfig()).newest_timestamp_ms == -1


# --- recompression


@CODECS
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("count", [3, 3_000])
def test_recompressed_records_are_the_same(compression: Compression, wanted: str, count: int) -> None:
    data = batch_with([index % 70 for index in range(count)], compression=compression, producer_id=7, base_sequence=3)
    batch = check_both(data, LogConfig(compression_type=wanted)).batch  # type: ignore[arg-type]
    batch.check_crc()

    assert batch.compression.label == ("none" if wanted == "uncompressed" else wanted)
    assert (batch.producer_id, batch.base_sequence, batch.record_count) == (7, 3, count)
    assert read_records(batch, size_bytes_max=1 << 20) == read_records(parse_batch(data), size_bytes_max=1 << 20)


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(Compression.GZIP, 1, 9), (Compression.LZ4, 1, 17), (Compression.ZSTD, -5, 19)]
)
@pytest.mark.parametrize("count", [200, 5_000])
def test_recompression_uses_the_compression_level_of_the_topic(
    kind: Compression, low: int, high: int, count: int
) -> None:
    text = [b"%d bottles of beer on the wall, take %d down" % (n * 7919 % 1009, n % 13) for n in range(count)]
    data = build_batch([Record(index, NOW_MS, None, value) for index, value in enumerate(text)])

    def size(level: int) -> int:
        config = LogConfig(**{"compression_type": kind.label, f"compression_{kind.label}_level": level})
        return check_both(data, config).batch.size_bytes

    assert size(high) < size(low)


def test_recompressed_batch_that_is_too_large_is_rejected_before_it_is_complete() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(20 << 20))], compression=Compression.ZSTD)
    background, memory = SimulatedBackground(), MemoryBudget(1)
    config = LogConfig(compression_type="uncompressed")
    off_loop = OffLoop(background, memory, SimulatedClock())

    with pytest.raises(KafkaError) as rejection:
        drive(check_in_steps(data, config, TOPIC_PARTITION, NOW_MS, off_loop), background)

    assert rejection.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert background.run_count < 10, "80 pieces would be all of it"
    assert memory.held_bytes == 0


@pytest.mark.parametrize(("piece_ms", "pieces"), [(0, 33), (1, 128)], ids=["quick", "slow"])
def test_recompressed_pieces_are_as_large_as_a_thread_is_quick(piece_ms: int, pieces: int) -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(8 << 20))], compression=Compression.ZSTD)
    background, clock = SimulatedBackground(), TickingClock(piece_ms)
    config = LogConfig(compression_type="lz4")

    drive(
        check_in_steps(data, config, TOPIC_PARTITION, NOW_MS, OffLoop(background, MemoryBudget(1), clock)), background
    )

    assert pieces <= background.run_count <= pieces + 2


# --- long checks


@CODECS
def test_records_are_walked_in_slices_and_decompressed_off_the_loop(compression: Compression) -> None:
    records = [Record(index, NOW_MS, b"k" * (index % 3), b"") for index in range(50_000)]
    data = build_batch(records, compression=compression)
    background, memory = SimulatedBackground(), MemoryBudget(1)
    steps = check_in_steps(data, LogConfig(), TOPIC_PARTITION, NOW_MS, OffLoop(background, memory, SimulatedClock()))

    assert check_at_once(data, LogConfig(), TOPIC_PARTITION, NOW_MS) is None
    _, slices = drive(steps, background)
    assert slices >= 50_000 / 256
    assert (background.run_count > 0) is (compression is not Compression.NONE)
    assert memory.held_bytes == 0


@pytest.mark.parametrize("wanted", ["producer", "lz4"])
def test_memory_of_a_decompression_bomb_is_bounded_and_counted(wanted: str) -> None:
    """3 KB of zstd may hold 100 MB."""
    data = build_batch([Record(0, NOW_MS, None, bytes(90 << 20))], compression=Compression.ZSTD)
    background, memory, held = SimulatedBackground(), MemoryBudget(64 << 20), set[int]()
    config = LogConfig(compression_type=wanted)  # type: ignore[arg-type]
    steps = check_in_steps(data, config, TOPIC_PARTITION, NOW_MS, OffLoop(background, memory, SimulatedClock()))

    drive(steps, background, lambda: held.add(memory.held_bytes))

    assert 8 << 20 < max(held) < 20 << 20
    assert memory.held_bytes == 0


def test_batch_that_decompresses_to_over_100_mib_is_rejected() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(101 << 20))], compression=Compression.ZSTD)

    with pytest.raises(CorruptRecordError, match="more than the allowed"):
        check_in_one_go(data, LogConfig(), TOPIC_PARTITION, NOW_MS, SimulatedClock())


def test_cancelled_check_releases_its_memory() -> None:
    data = build_batch([Record(0, NOW_MS, None, bytes(1 << 20))], compression=Compression.GZIP)
    background, memory = SimulatedBackground(), MemoryBudget(64 << 20)
    steps = check_in_steps(data, LogConfig(), TOPIC_PARTITION, NOW_MS, OffLoop(background, memory, SimulatedClock()))
    next(steps)
    assert memory.held_bytes > 0
    steps.close()
    background.complete_work()

    assert memory.held_bytes == 0


def test_zstd_with_a_large_window_is_checked_with_more_memory() -> None:
    payload = bytes(parse_batch(build_batch([Record(0, NOW_MS, None, bytes(100))])).payload)
    header = bytearray(build_batch([Record(0, NOW_MS, None, bytes(100))], compression=Compression.ZSTD)[:61])
    compressed = compress(Compression.ZSTD, payload)
    # A frame header of its own: no content size, a window of 64 MiB.
    frame = compressed[:4] + bytes((0, (26 - 10) << 3)) + compressed[6 if compressed[4] & 0x20 else 5 :]
    data = header + frame
    pack_into(">i", data, 8, len(data) - 12)
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    held: list[int] = []
    background, memory = SimulatedBackground(), MemoryBudget(64 << 20)
    steps = check_in_steps(data, LogConfig(), TOPIC_PARTITION, NOW_MS, OffLoop(background, memory, SimulatedClock()))

    checked, _ = drive(steps, background, lambda: held.append(memory.held_bytes))

    assert checked.newest_timestamp_ms == NOW_MS
    assert max(held) > 128 << 20, "it runs alone"


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
def test_keys_of_many_records_are_required_in_compacted_topics(cleanup: str) -> None:
    records = [Record(index, NOW_MS, None if index == 1_500 else b"k", b"v") for index in range(2_000)]
    config = LogConfig(cleanup_policy=frozenset({cleanup}))

    if cleanup == "delete":
        check_both(build_batch(records), config)
        return
    with pytest.raises(RecordValidationError) as rejection:
        check_both(build_batch(records), config)
    assert [error.batch_index for error in rejection.value.record_errors] == [1_500]


def test_invalid_record_is_named_in_the_error() -> None:
    data = bytearray(build_batch([Record(index, NOW_MS, b"k", b"v" * 100) for index in range(3_000)]))
    size_bytes = (len(data) - 61) // 3_000
    data[61 + 2 * size_bytes + 20] ^= 1
    position = data.index(b"v" * 100, len(data) - 200) - 1
    data[position] ^= 2
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))

    with pytest.raises(InvalidRecordError, match="record 2999 of 3000"):
        check_both(data, LogConfig())
