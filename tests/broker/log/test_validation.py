"""Validation of a producer's batch by the leader: accepted batches, rejected ones and their error codes."""

from collections.abc import Callable
from struct import pack_into
from typing import Any

import pytest

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError, KafkaError
from ottla.log.batch_check import CheckedBatch, check_at_once, check_in_one_go
from ottla.log.config import LogConfig
from ottla.log.validation import RecordValidationError, check_assigned_batches
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import TopicPartition
from ottla.wire.records import Compression, Record, RecordBatch, TimestampType, build_batch, crc32c, parse_batch

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
TOPIC_PARTITION = TopicPartition("topic", 0)

MakeBatch = Callable[..., bytearray]


def patched(data: bytearray, position: int, form: str, value: int) -> bytearray:
    """Change a header field and recompute the CRC: a faulty producer, not a corrupt transmission."""
    pack_into(form, data, position, value)
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return data


def check(data: bytearray, **config: Any) -> None:
    check_all(parse_batch(data), LogConfig(**config))


def check_all(batch: RecordBatch, config: LogConfig) -> None:
    """Check at once, if that is possible, and in steps; the outcomes must be equal."""

    def outcome(check: Callable[..., CheckedBatch | None]) -> object:
        try:
            found = check(bytes(batch.buffer), config, TOPIC_PARTITION, NOW_MS)
        except KafkaError as error:
            return error.code
        return found and (bytes(found.batch.data), found.newest_timestamp_ms)

    at_once = outcome(check_at_once)
    assert at_once in (None, outcome(lambda *given: check_in_one_go(*given, SimulatedClock())))
    check_in_one_go(bytes(batch.buffer), config, TOPIC_PARTITION, NOW_MS, SimulatedClock())


def test_valid_batch_is_accepted(make_batch: MakeBatch) -> None:
    check(make_batch(3))
    check(make_batch(3, producer_id=1, producer_epoch=0, base_sequence=0))
    check(make_batch(3, compression=Compression.LZ4))


@pytest.mark.parametrize(
    ("position", "form", "value", "words"),
    [
        pytest.param(0, ">q", 5, "should be 0, but it is 5", id="base-offset-not-zero"),
        pytest.param(23, ">i", -1, "invalid offset range", id="no-offsets"),
        pytest.param(23, ">i", 3, "Inconsistent batch offset range", id="more-offsets-than-records"),
        pytest.param(57, ">i", 0, "Invalid reported count", id="no-records"),
        pytest.param(57, ">i", -3, "Invalid reported count", id="negative-count"),
        pytest.param(57, ">i", 2, "Inconsistent batch offset range", id="fewer-records-than-offsets"),
        pytest.param(21, ">h", 0x20, "not allowed to write control records", id="control-batch"),
        pytest.param(43, ">q", 7, "Invalid sequence number -1", id="producer-id-without-sequence"),
    ],
)
def test_contradictory_batch_header_is_invalid_record(
    make_batch: MakeBatch, position: int, form: str, value: int, words: str
) -> None:
    with pytest.raises(InvalidRecordError, match=words) as raised:
        check(patched(make_batch(3), position, form, value))

    assert raised.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("config", [{}, {"cleanup_policy": frozenset({"compact"})}], ids=["deleted", "compacted"])
@pytest.mark.parametrize("codec", [5, 7])
def test_unknown_codec_is_an_invalid_record_in_every_topic(
    make_batch: MakeBatch, codec: int, config: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRecordError, match=f"Unknown compression type id: {codec}"):
        check(patched(make_batch(3), 21, ">h", codec), **config)


def test_wrong_crc_is_a_corrupt_message_not_an_invalid_record(make_batch: MakeBatch) -> None:
    data = make_batch(3)
    data[-1] ^= 1

    with pytest.raises(CorruptRecordError) as raised:
        check(data)

    assert raised.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("tail", [b"x", bytes(61)], ids=["a-byte", "another-header"])
def test_more_than_one_batch_is_rejected(make_batch: MakeBatch, tail: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="one record batch"):
        check(make_batch(3) + tail)


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.label)
@pytest.mark.parametrize("more", [-1, 1, 7], ids=["one-fewer", "one-more", "seven-more"])
@pytest.mark.parametrize("count", [2, 4, 5, 32, 33, 1_000, 9_000], ids=lambda count: f"{count}-records")
def test_wrong_record_count_is_rejected_in_a_batch_of_any_size(
    make_batch: MakeBatch, count: int, more: int, compression: Compression
) -> None:
    data = make_batch(count, size_bytes=20, compression=compression)
    check(data)
    data = patched(patched(data, 57, ">i", count + more), 23, ">i", count + more - 1)

    with pytest.raises(InvalidRecordError, match=rf"{count + more} records|of {count + more} in") as raised:
        check(data)
    assert raised.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
@pytest.mark.parametrize(("count", "is_rejected"), [(70_000, False), (70_001, True)])
def test_record_count_of_a_batch_is_bounded_by_max_message_bytes(count: int, is_rejected: bool, cleanup: str) -> None:
    config = LogConfig(max_message_bytes=280_000, cleanup_policy=frozenset({cleanup}))
    records = [Record(offset, NOW_MS, b"", None) for offset in range(count)]
    batch = parse_batch(build_batch(records, compression=Compression.ZSTD))

    if not is_rejected:
        check_all(batch, config)
        return
    with pytest.raises(
        KafkaError, match=r"has 70001 records; with max\.message\.bytes=280000 it may have 70000"
    ) as raised:
        check_all(batch, config)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE, "producers split the batch then"


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
def test_impossible_record_count_is_an_invalid_record_not_too_large(make_batch: MakeBatch, cleanup: str) -> None:
    data = patched(patched(make_batch(3), 57, ">i", 2**31 - 1), 23, ">i", 2**31 - 2)

    with pytest.raises(InvalidRecordError, match="header of the batch has 2147483647 records"):
        check_all(parse_batch(data), LogConfig(cleanup_policy=frozenset({cleanup})))


@pytest.mark.parametrize(("count", "is_rejected"), [(70_000, False), (70_001, True)])
def test_header_count_of_a_batch_has_the_limit_of_its_records(count: int, is_rejected: bool) -> None:
    config = LogConfig(max_message_bytes=280_000, cleanup_policy=frozenset({"compact"}))
    filling = bytes(5 * 1024 * 1024)
    headers = (("", None),) * (count - 1)
    records = [Record(0, NOW_MS, b"k", filling, headers), Record(1, NOW_MS, b"k", b"", (("", None),))]
    batch = parse_batch(build_batch(records, compression=Compression.ZSTD))

    if not is_rejected:
        check_all(batch, config)
        return
    for each in (config, LogConfig(max_message_bytes=280_000)):
        with pytest.raises(KafkaError, match=r"more than 70000 headers") as raised:
            check_all(batch, each)
        assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(
    ("count", "share"), [(10_000, 7), (5_000, 14), (7_000, 10)], ids=["in-each", "in-every-second", "in-the-first"]
)
def test_headers_count_however_the_records_share_them(count: int, share: int, more: int, cleanup: str) -> None:
    config = LogConfig(max_message_bytes=280_000, cleanup_policy=frozenset({cleanup}))
    step = 2 if count == 5_000 else 1
    counts = [share if index % step == 0 and index // step < count else 0 for index in range(10_000)]
    counts[-1] += more
    records = [Record(index, NOW_MS, b"k", bytes(450), (("", None),) * headers) for index, headers in enumerate(counts)]
    batch = parse_batch(build_batch(records, compression=Compression.ZSTD))

    if not more:
        check_all(batch, config)
        return
    with pytest.raises(KafkaError, match="more than 70000 headers") as raised:
        check_all(batch, config)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("cleanup", ["delete", "compact"])
def test_error_of_a_large_batch_names_the_invalid_record(make_batch: MakeBatch, cleanup: str) -> None:
    config = LogConfig(max_message_bytes=20_000_000, cleanup_policy=frozenset({cleanup}))
    data = make_batch(2_000, size_bytes=3_000)
    check_all(parse_batch(data), config)

    with pytest.raises(InvalidRecordError, match="of 2001 in"):
        check_all(parse_batch(patched(patched(data, 57, ">i", 2_001), 23, ">i", 2_000)), config)


@pytest.mark.parametrize("index", [0, 1, 63, 64, 4_000, 8_191, 8_192, 8_999], ids=lambda index: f"record-{index}")
def test_offset_delta_that_is_not_the_next_is_rejected(index: int) -> None:
    records = [Record(number + (number >= index), NOW_MS, None, b"v" * 20) for number in range(9_000)]
    data = patched(bytearray(build_batch(records, base_offset=0)), 23, ">i", 8_999)

    with pytest.raises(InvalidRecordError, match="offset delta"):
        check(data)


def test_base_timestamp_near_the_int64_limit_rejects_overflowing_deltas(make_batch: MakeBatch) -> None:
    data, config = make_batch(100), {"message_timestamp_after_max_ms": 2**63 - 1}
    check(patched(data, 27, ">q", 2**63 - 1 - 99), **config)
    with pytest.raises(InvalidRecordError, match="64 bits"):
        check(patched(data, 27, ">q", 2**63 - 99), **config)


@pytest.mark.parametrize("size_bytes", [0, 50, 53, 54, 8000, 8186, 8187, 300_000], ids=lambda size: f"{size}-bytes")
def test_sizes_of_any_length_are_counted(make_batch: MakeBatch, size_bytes: int) -> None:
    check(make_batch(3, size_bytes=size_bytes))
    with pytest.raises(InvalidRecordError):
        check(patched(patched(make_batch(3, size_bytes=size_bytes), 57, ">i", 2), 23, ">i", 1))


def test_record_with_a_negative_size_is_rejected(make_batch: MakeBatch) -> None:
    data = make_batch(1)
    data[61] |= 1
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))

    with pytest.raises(InvalidRecordError):
        check(data)


def test_record_with_an_unterminated_size_varint_is_rejected(make_batch: MakeBatch) -> None:
    data = make_batch(1)
    data[61:67] = b"\xff" * 6
    pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))

    with pytest.raises(InvalidRecordError):
        check(data)


# --- timestamps


@pytest.mark.parametrize(
    ("ahead_ms", "is_rejected"),
    [pytest.param(HOUR_MS, False, id="exactly-the-limit"), pytest.param(HOUR_MS + 1, True, id="one-ms-more")],
)
def test_timestamp_too_far_in_the_future_is_rejected(make_batch: MakeBatch, ahead_ms: int, is_rejected: bool) -> None:
    batch = parse_batch(make_batch(1, timestamp_ms=NOW_MS + ahead_ms))

    if is_rejected:
        with pytest.raises(RecordValidationError) as raised:
            check_all(batch, LogConfig())
        assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    else:
        check_all(batch, LogConfig())


@pytest.mark.parametrize(
    ("age_ms", "is_rejected"),
    [pytest.param(HOUR_MS, False, id="exactly-the-limit"), pytest.param(HOUR_MS + 1, True, id="one-ms-more")],
)
def test_timestamp_too_old_is_rejected(age_ms: int, is_rejected: bool) -> None:
    config = LogConfig(message_timestamp_before_max_ms=HOUR_MS)
    data = build_batch([Record(0, NOW_MS, b"k", None), Record(1, NOW_MS - age_ms, b"k", None)])
    batch = parse_batch(data)
    assert config.validates_records

    if is_rejected:
        with pytest.raises(RecordValidationError) as raised:
            check_all(batch, config)
        assert raised.value.code is ErrorCode.INVALID_TIMESTAMP
    else:
        check_all(batch, config)


def test_no_timestamp_is_never_too_old(make_batch: MakeBatch) -> None:
    config = LogConfig(message_timestamp_before_max_ms=HOUR_MS)

    check_all(parse_batch(make_batch(1, timestamp_ms=-1)), config)


def test_log_append_time_type_from_a_producer_is_rejected() -> None:
    data = build_batch(
        [Record(0, NOW_MS, None, b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=NOW_MS
    )

    with pytest.raises(RecordValidationError) as raised:
        check_all(parse_batch(data), LogConfig(message_timestamp_type="LogAppendTime"))

    assert raised.value.code is ErrorCode.INVALID_TIMESTAMP


# --- keys


def test_records_without_key_are_rejected_by_index_in_a_compacted_topic() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact", "delete"}))
    data = build_batch([Record(0, NOW_MS, b"k", b"v"), Record(1, NOW_MS, None, b"v"), Record(2, NOW_MS, None, b"v")])

    with pytest.raises(RecordValidationError) as raised:
        check_all(parse_batch(data), config)

    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in raised.value.record_errors] == [1, 2]
    assert "without key" in raised.value.record_errors[0].message


# --- batches with assigned offsets


def test_assigned_batches_follow_each_other(make_batch: MakeBatch) -> None:
    data = bytes(make_batch(2, base_offset=4) + make_batch(1, base_offset=9))

    found = check_assigned_batches(data, 4, TOPIC_PARTITION)

    assert [batch.base_offset for batch in found] == [4, 9]


@pytest.mark.parametrize("next_offset", [5, 6, 100])
def test_assigned_batches_start_at_or_above_the_log_end(make_batch: MakeBatch, next_offset: int) -> None:
    with pytest.raises(KafkaError) as raised:
        check_assigned_batches(bytes(make_batch(2, base_offset=4)), next_offset, TOPIC_PARTITION)

    assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
