"""Records are read and walked; every wrong size, count or delta is an error with the index of the record."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptRecordError, ErrorCode, InvalidRecordError
from ottla.wire.records import (
    Compression,
    Record,
    TimestampType,
    build_batch,
    parse_batch,
    read_records,
    validate_records,
)
from ottla.wire.records.varint import encode_varint
from peak_memory import peak_bytes_of

LIMIT = 1 << 20
Seal = Callable[..., bytes]
Action = Callable[..., Any]
RECORDS = [
    Record(0, 1_000, b"key", b"value", (("name", b"header"), ("none", None))),
    Record(1, 900, None, b"v" * 100),
    Record(2, 5_000, b"k" * 300, None),
    Record(3, 4_000, b"", b""),
]


def raw(
    *, delta_ms: int = 0, offset_delta: int = 0, key: bytes = b"\x01", value: bytes = b"\x01", tail: bytes = b"\0"
) -> bytes:
    """Return one record; ``key`` and ``value`` with their size, ``tail`` is the headers; by default nulls, none."""
    body = b"\0" + encode_varint(delta_ms) + encode_varint(offset_delta) + key + value + tail
    return encode_varint(len(body)) + body


def test_validation_returns_timestamps_and_null_keys() -> None:
    summary = validate_records(parse_batch(build_batch(RECORDS)), size_bytes_max=LIMIT)

    assert summary.record_count == 4
    assert (summary.min_timestamp_ms, summary.max_timestamp_ms, summary.max_timestamp_offset) == (900, 5_000, 2)
    assert summary.null_key_indexes == (1,)


def test_first_of_equal_timestamps_is_the_max_timestamp_offset() -> None:
    records = [Record(offset, 7, b"k", None) for offset in range(50, 53)]

    summary = validate_records(parse_batch(build_batch(records, base_offset=50)), size_bytes_max=LIMIT)

    assert summary.max_timestamp_offset == 50


def test_validation_reports_at_most_a_hundred_null_keys() -> None:
    records = [Record(offset, 0, None, b"v") for offset in range(150)]

    summary = validate_records(parse_batch(build_batch(records)), size_bytes_max=LIMIT)

    assert summary.null_key_indexes == tuple(range(100))


def test_log_append_time_is_every_records_timestamp() -> None:
    batch = parse_batch(build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=77))

    assert [record.timestamp_ms for record in read_records(batch, size_bytes_max=LIMIT)] == [77] * 4


def test_offset_gaps_are_read_but_rejected_from_a_producer() -> None:
    batch = parse_batch(build_batch([RECORDS[0], RECORDS[2]], last_offset=9))

    assert [record.offset for record in read_records(batch, size_bytes_max=LIMIT)] == [0, 2]
    with pytest.raises(InvalidRecordError, match=r"record 1 of 2 .* offset delta 2"):
        validate_records(batch, size_bytes_max=LIMIT)


def test_empty_batch_has_no_records(seal: Seal) -> None:
    batch = parse_batch(seal(b"", record_count=0, last_offset_delta=4))

    assert read_records(batch, size_bytes_max=LIMIT) == []


def test_malformed_header_names_are_read_with_replacement_characters(seal: Seal) -> None:
    tail = b"\x02" + b"\x04\xff\xfe" + b"\x01"

    (record,) = read_records(parse_batch(seal(raw(tail=tail))), size_bytes_max=LIMIT)

    assert record.headers == (("\ufffd\ufffd", None),)


@pytest.mark.parametrize(
    ("payload", "record_count", "reason"),
    [
        pytest.param(raw(), 2, "record 1 of 2 .* the bytes end within it", id="count-above"),
        pytest.param(raw(), 2**31 - 1, "record 1 of 2147483647", id="count-far-above"),
        pytest.param(raw(), 0, "says that it has 0 records; 7 bytes are left", id="count-zero"),
        pytest.param(raw(), -1, "says that it has -1 records", id="count-negative"),
        pytest.param(raw() + raw(offset_delta=1), 1, "7 bytes are left after", id="count-below"),
        pytest.param(raw() + b"\0", 1, "1 bytes are left", id="a-byte-too-many"),
        pytest.param(b"\x01", 1, "says that it has -1 bytes", id="negative-size"),
        pytest.param(b"\x0d" + raw()[1:], 1, "says that it has -7 bytes", id="more-negative-size"),
        pytest.param(b"\x0e" + raw()[1:], 1, "says that it has 7 bytes; 6 are left", id="size-one-above"),
        pytest.param(encode_varint(2**31 - 1) + raw()[1:], 1, "2147483647 bytes; 6 are left", id="size-2-gib"),
        pytest.param(b"\x0a" + raw()[1:-1] + b"\0", 1, "1 bytes after its size says", id="size-one-below"),
        pytest.param(b"\x0e" + raw()[1:] + b"\0", 1, "1 bytes before its size says", id="size-past-the-end"),
        pytest.param(raw(key=b"\x02"), 1, "bytes end within it|after its size", id="key-takes-the-value"),
        pytest.param(raw(key=b"\x7e"), 1, "the bytes end within it", id="key-size-above"),
        pytest.param(raw(value=encode_varint(2**31 - 1)), 1, "the bytes end within it", id="value-2-gib"),
        pytest.param(raw(tail=b"\x01"), 1, "says that it has -1 headers", id="negative-header-count"),
        pytest.param(raw(tail=b"\x02"), 1, "has 1 headers; 0 bytes are left", id="header-count-above"),
        pytest.param(raw(tail=b"\x02\0"), 1, "has 1 headers; 1 bytes are left", id="half-a-header"),
        pytest.param(
            raw(tail=encode_varint(2**31 - 1) + bytes(40)),
            1,
            "has 2147483647 headers; 40 bytes are left",
            id="header-count-2-gib",
        ),
        pytest.param(raw(tail=b"\x02\x01\x01"), 1, "headers has no key", id="header-without-key"),
        pytest.param(raw(tail=b"\x02\x04\0"), 1, "bytes end within it", id="header-key-size-above"),
        pytest.param(raw(offset_delta=1), 1, "offset", id="offset-delta-above-the-last"),
        pytest.param(raw(offset_delta=-1), 1, "offset", id="offset-delta-negative"),
        pytest.param(raw() + raw(), 2, "record 1 of 2 .* offset", id="offset-delta-twice"),
        pytest.param(raw(offset_delta=1) + raw(), 2, "offset", id="offset-deltas-descend"),
        pytest.param(b"\xff" * 6, 1, "more than 32 bits", id="endless-varint"),
        pytest.param(b"\x80", 1, "the bytes end within it", id="half-a-varint"),
        pytest.param(b"", 1, "record 0 of 1 .* the bytes end within it", id="nothing"),
    ],
)
@pytest.mark.parametrize("action", [read_records, validate_records], ids=["read", "validate"])
def test_inconsistency_is_an_invalid_record(
    action: Action, seal: Seal, payload: bytes, record_count: int, reason: str
) -> None:
    batch = parse_batch(seal(payload, record_count=record_count))
    batch.check_crc()

    with pytest.raises(InvalidRecordError, match=reason) as error:
        action(batch, size_bytes_max=LIMIT)
    assert error.value.code is ErrorCode.INVALID_RECORD
    assert "batch at offset 0" in str(error.value)


@pytest.mark.parametrize("last_offset_delta", [-1, 0, 2, 2**31 - 1])
def test_validation_compares_count_and_last_offset_delta(seal: Seal, last_offset_delta: int) -> None:
    payload = raw() + raw(offset_delta=1)
    batch = parse_batch(seal(payload, record_count=2, last_offset_delta=last_offset_delta))

    with pytest.raises(InvalidRecordError, match=f"last offset delta is {last_offset_delta}"):
        validate_records(batch, size_bytes_max=LIMIT)


@pytest.mark.parametrize("action", [read_records, validate_records], ids=["read", "validate"])
@pytest.mark.parametrize(
    ("base_timestamp_ms", "delta_ms"),
    [
        pytest.param(2**63 - 1, 1, id="above"),
        pytest.param(-(2**63), -1, id="below"),
        pytest.param(1_000, 2**63 - 1, id="far-above"),
    ],
)
def test_timestamps_beyond_64_bits_are_rejected(
    action: Action, seal: Seal, base_timestamp_ms: int, delta_ms: int
) -> None:
    batch = parse_batch(seal(raw(delta_ms=delta_ms), base_timestamp_ms=base_timestamp_ms))

    with pytest.raises(InvalidRecordError, match="64 bits"):
        action(batch, size_bytes_max=LIMIT)


@pytest.mark.parametrize("timestamp_ms", [2**63 - 1, -(2**63)])
def test_timestamps_of_64_bits_are_read(seal: Seal, timestamp_ms: int) -> None:
    batch = parse_batch(seal(raw(), base_timestamp_ms=timestamp_ms))

    assert read_records(batch, size_bytes_max=LIMIT)[0].timestamp_ms == timestamp_ms
    assert validate_records(batch, size_bytes_max=LIMIT).max_timestamp_ms == timestamp_ms


def test_wrong_sizes_allocate_no_memory(seal: Seal) -> None:
    payload = raw(tail=encode_varint(2**31 - 1) + bytes(40))
    batch = parse_batch(seal(payload, record_count=2**31 - 1))

    def reject() -> None:
        for action in (read_records, validate_records):
            with pytest.raises(InvalidRecordError):
                action(batch, size_bytes_max=LIMIT)

    assert peak_bytes_of(reject) < 100_000


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.label)
@pytest.mark.parametrize("action", [read_records, validate_records], ids=["read", "validate"])
def test_size_limit_applies_to_the_decompressed_size(action: Action, compression: Compression) -> None:
    plain_size_bytes = len(parse_batch(build_batch(RECORDS)).payload)
    batch = parse_batch(build_batch(RECORDS, compression=compression))

    action(batch, size_bytes_max=plain_size_bytes)
    with pytest.raises(CorruptRecordError, match=f"more than the allowed {plain_size_bytes - 1} bytes"):
        action(batch, size_bytes_max=plain_size_bytes - 1)


@given(st.data())
def test_corrupted_records_are_read_or_rejected_but_never_break(data: st.DataObject) -> None:
    batch = bytearray(build_batch(RECORDS))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(57, len(batch) - 1))] = data.draw(st.integers(0, 255))
    view = parse_batch(batch)

    outcomes = []
    for action in (read_records, validate_records):
        try:
            outcomes.append(len(action(view, size_bytes_max=LIMIT)) >= 0)
        except InvalidRecordError:
            outcomes.append(False)
    # Records that pass validation can be read; reading also accepts the gaps of compaction.
    assert outcomes[0] or not outcomes[1]


@given(st.binary(max_size=60), st.integers(-(2**31), 2**31 - 1))
def test_random_payloads_are_rejected_or_read(payload: bytes, record_count: int) -> None:
    header = build_batch([Record(0, 0, None, None)])[:57]
    data = bytearray(header + record_count.to_bytes(4, "big", signed=True) + payload)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")

    for action in (read_records, validate_records):
        try:
            action(parse_batch(data), size_bytes_max=LIMIT)
        except InvalidRecordError:
            continue
