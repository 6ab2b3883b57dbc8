"""A view on a batch reads every header field, patches in place, and rejects bytes that are no batch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptRecordError, ErrorCode
from ottla.wire.records import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    Compression,
    Record,
    TimestampType,
    build_batch,
    increment_sequence,
    iterate_batches,
    parse_batch,
    read_records,
)
from peak_memory import peak_bytes_of

RECORDS = [Record(offset, 1_000 + offset, b"key", b"value %d" % offset) for offset in range(40, 43)]
BATCH = build_batch(
    RECORDS,
    base_offset=40,
    leader_epoch=5,
    producer_id=900,
    producer_epoch=2,
    base_sequence=7,
    is_transactional=True,
)


def test_every_header_field_is_read() -> None:
    batch = parse_batch(BATCH)

    assert batch.base_offset == 40
    assert batch.size_bytes == len(BATCH) == batch.end_position
    assert batch.batch_length == len(BATCH) - LOG_OVERHEAD_BYTES
    assert batch.leader_epoch == 5
    assert batch.magic == 2
    assert batch.crc == batch.compute_crc()
    assert batch.last_offset_delta == 2
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (1_040, 1_042)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (900, 2, 7)
    assert batch.record_count == 3
    assert (batch.last_offset, batch.next_offset, batch.last_sequence) == (42, 43, 9)
    assert batch.compression is Compression.NONE
    assert not batch.is_compressed
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.has_producer_id
    assert batch.delete_horizon_ms is None
    assert bytes(batch.data) == BATCH
    assert bytes(batch.payload) == BATCH[HEADER_SIZE_BYTES:]


def test_repr_has_the_fields_for_a_log_line() -> None:
    assert repr(parse_batch(BATCH)) == (
        f"RecordBatch(offsets 40-42, 3 records, {len(BATCH)} bytes, leader epoch 5, none, "
        "producer 900/2 from sequence 7)"
    )


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview], ids=lambda kind: kind.__name__)
def test_batch_is_parsed_in_any_buffer_at_any_position(buffer: type) -> None:
    batch = parse_batch(buffer(b"before" + BATCH + b"after"), 6)

    batch.check_crc()
    assert bytes(batch.data) == BATCH
    assert read_records(batch, size_bytes_max=1_000) == RECORDS


def test_parsed_batch_does_not_copy_the_payload() -> None:
    data = build_batch([Record(0, 0, None, bytes(4 << 20))])

    def parse() -> None:
        batch = parse_batch(data)
        batch.check_crc()
        assert len(batch.payload) > 4 << 20

    assert peak_bytes_of(parse) < 10_000


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (2**31 - 2, 1, 2**31 - 1),
        (2**31 - 1, 1, 0),
        (2**31 - 1, 2, 1),
        (2**31 - 1, 2**31 - 1, 2**31 - 2),
    ],
)
def test_sequences_wrap_after_2_to_the_31_minus_1(sequence: int, increment: int, expected: int) -> None:
    assert increment_sequence(sequence, increment) == expected


def test_batch_without_sequence_has_no_last_sequence() -> None:
    batch = parse_batch(build_batch(RECORDS))

    assert (batch.base_sequence, batch.last_sequence) == (-1, -1)
    assert not batch.has_producer_id


def test_patch_writes_offset_and_epoch_and_keeps_the_crc() -> None:
    data = bytearray(b"xx" + BATCH)
    batch = parse_batch(data, 2)

    batch.patch(2**40, 77)

    assert (batch.base_offset, batch.leader_epoch) == (2**40, 77)
    again = parse_batch(data, 2)
    again.check_crc()
    assert (again.base_offset, again.leader_epoch) == (2**40, 77)
    assert data[2 + 16 :] == BATCH[16:]
    assert data[:2] == b"xx"


def test_log_append_time_is_patched_with_a_new_crc() -> None:
    data = bytearray(BATCH)
    batch = parse_batch(data)

    batch.set_max_timestamp(TimestampType.LOG_APPEND_TIME, 9_999)

    again = parse_batch(data)
    again.check_crc()
    assert again.crc == batch.crc
    assert again.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert again.is_transactional
    assert {record.timestamp_ms for record in read_records(again, size_bytes_max=1_000)} == {9_999}

    again.set_max_timestamp(TimestampType.CREATE_TIME, 1_042)
    assert data == BATCH


def test_unchanged_timestamp_writes_nothing() -> None:
    batch = parse_batch(BATCH)

    batch.set_max_timestamp(TimestampType.CREATE_TIME, 1_042)

    assert batch.max_timestamp_ms == 1_042


@given(st.integers(8 * 21, 8 * len(BATCH) - 1))
def test_any_flipped_bit_covered_by_the_crc_is_detected(bit: int) -> None:
    data = bytearray(BATCH)
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises(CorruptRecordError, match="CRC-32C"):
        parse_batch(data).check_crc()


@pytest.mark.parametrize("bit", range(8 * 17, 8 * 21))
def test_any_flipped_bit_of_the_crc_itself_is_detected(bit: int) -> None:
    data = bytearray(BATCH)
    data[bit // 8] ^= 1 << bit % 8

    with pytest.raises(CorruptRecordError, match="corrupted") as error:
        parse_batch(data).check_crc()
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size_bytes", range(len(BATCH)))
def test_batch_truncated_anywhere_is_rejected(size_bytes: int) -> None:
    with pytest.raises(CorruptRecordError, match=r"bytes are left|a header has"):
        parse_batch(BATCH[:size_bytes])
    assert list(iterate_batches(BATCH[:size_bytes])) == []
    if size_bytes:
        with pytest.raises(CorruptRecordError):
            list(iterate_batches(BATCH[:size_bytes], strict=True))


@pytest.mark.parametrize(
    ("length", "reason"),
    [
        pytest.param(-(2**31), "the least is 49", id="most-negative"),
        pytest.param(-1, "the least is 49", id="negative"),
        pytest.param(0, "the least is 49", id="zero"),
        pytest.param(48, "the least is 49", id="one-below-an-empty-batch"),
        pytest.param(len(BATCH) - 11, "bytes are left", id="one-more-than-there-is"),
        pytest.param(2**31 - 1, "bytes are left", id="two-gibibytes"),
    ],
)
def test_wrong_length_is_rejected(length: int, reason: str) -> None:
    data = bytearray(BATCH)
    data[8:12] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptRecordError, match=reason):
        parse_batch(data)


def test_smallest_batch_length_is_that_of_a_batch_without_records() -> None:
    data = bytearray(BATCH[:HEADER_SIZE_BYTES])
    data[8:12] = (49).to_bytes(4, "big")

    assert parse_batch(data).size_bytes == HEADER_SIZE_BYTES


@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 3])
def test_other_magics_are_rejected_even_in_few_bytes(magic: int) -> None:
    data = bytearray(BATCH)
    data[16] = magic & 0xFF

    for size_bytes in (17, 60, len(data)):
        with pytest.raises(CorruptRecordError, match=f"magic {magic};"):
            parse_batch(data[:size_bytes])


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_kafka_does_not_have_are_rejected(codec: int) -> None:
    data = bytearray(BATCH)
    data[22] |= codec

    with pytest.raises(CorruptRecordError, match=f"codec {codec}"):
        _ = parse_batch(data).compression


def test_batches_are_iterated_in_order_up_to_a_partial_one() -> None:
    batches = [build_batch([Record(offset, 0, None, b"v")], base_offset=offset) for offset in range(5)]
    data = b"".join(batches)

    assert [batch.base_offset for batch in iterate_batches(data)] == [0, 1, 2, 3, 4]
    assert [batch.base_offset for batch in iterate_batches(data[:-1])] == [0, 1, 2, 3]
    assert [batch.base_offset for batch in iterate_batches(data, 2 * len(batches[0]))] == [2, 3, 4]
    assert list(iterate_batches(b"")) == []


def test_strict_iteration_yields_whole_batches_and_then_raises() -> None:
    iterator = iterate_batches(BATCH + BATCH[:30], strict=True)

    assert next(iterator).base_offset == 40
    with pytest.raises(CorruptRecordError):
        next(iterator)


@pytest.mark.parametrize("strict", [True, False])
def test_bytes_that_are_no_batch_are_an_error_in_either_mode(strict: bool) -> None:
    with pytest.raises(CorruptRecordError, match=f"byte {len(BATCH)} has magic 0"):
        list(iterate_batches(BATCH + bytes(200), strict=strict))


@given(st.binary(max_size=200))
def test_random_bytes_give_batches_or_corrupt_record_errors(data: bytes) -> None:
    try:
        for batch in iterate_batches(data):
            assert batch.end_position <= len(data)
    except CorruptRecordError:
        pass
