"""Keys are those of the whole records, and a batch of some of them is the one that is built from those records."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.wire.records import (
    Compression,
    Record,
    RecordBatch,
    TimestampType,
    build_batch,
    build_retained_batch,
    decompress,
    parse_batch,
    read_record_keys,
    read_records,
)

LIMIT = 1 << 20
Seal = Callable[..., bytes]
NULLABLE = st.none() | st.binary(max_size=3) | st.integers(60, 70).map(bytes) | st.just(bytes(9_000))
HEADERS = st.lists(st.tuples(st.text(max_size=2), NULLABLE), max_size=2).map(tuple)
GAPS = st.sampled_from([1, 1, 1, 2, 62, 63, 8_000, 8_192, 2**20])
ENTRIES = st.lists(st.tuples(GAPS, st.integers(0, 2**40), NULLABLE, NULLABLE, HEADERS), min_size=1, max_size=12)


def records_of(entries: list[Any], base_offset: int) -> list[Record]:
    offset = base_offset - 1
    records = []
    for gap, timestamp_ms, key, value, headers in entries:
        offset += gap
        records.append(Record(offset, timestamp_ms, key, value, headers))
    return records


def plain(batch: RecordBatch) -> bytes:
    return decompress(batch.compression, batch.payload, size_bytes_max=LIMIT)


@given(ENTRIES, st.integers(0, 2**50))
def test_keys_are_those_of_the_records(entries: list[Any], base_offset: int) -> None:
    records = records_of(entries, base_offset)
    batch = parse_batch(build_batch(records, base_offset=base_offset))
    data = plain(batch)

    keys = read_record_keys(batch, data)

    assert [(key.offset, key.key, key.is_tombstone) for key in keys] == [
        (record.offset, record.key, record.value is None) for record in records
    ]
    assert [key.start for key in keys] + [len(data)] == [0] + [key.end for key in keys]


@given(
    ENTRIES,
    st.sets(st.integers(0, 11)),
    st.none() | st.integers(0, 2**41),
    st.sampled_from(Compression),
    st.booleans(),
    st.booleans(),
)
def test_retained_batch_is_the_one_built_from_the_retained_records(
    entries: list[Any],
    removed: set[int],
    horizon_ms: int | None,
    codec: Compression,
    is_append_time: bool,
    had_horizon: bool,
) -> None:
    records = records_of(entries, 7)
    options: dict[str, Any] = {
        "base_offset": 7,
        "leader_epoch": 3,
        "compression": codec,
        "producer_id": 5,
        "producer_epoch": 1,
        "base_sequence": 40,
        "is_transactional": True,
    }
    if is_append_time:
        options |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time_ms": 2**40 + 5}
    original = {"delete_horizon_ms": 2**39} if had_horizon else {}
    batch = parse_batch(build_batch(records, **options, **original))
    data, whole = plain(batch), read_records(batch, size_bytes_max=LIMIT)
    kept = [index for index in range(len(records)) if index not in removed] or [0]
    keys = read_record_keys(batch, data)

    left = build_retained_batch(batch, data, [keys[index] for index in kept], delete_horizon_ms=horizon_ms)

    assert left == build_batch(
        [whole[index] for index in kept], last_offset=batch.last_offset, delete_horizon_ms=horizon_ms, **options
    )


@given(ENTRIES, st.integers(0, 2**20), st.integers(0, 255), st.integers(0, 2))
def test_corrupt_records_are_an_error_or_have_the_keys_that_a_reader_sees(
    seal: Seal, entries: list[Any], place: int, byte: int, missing: int
) -> None:
    batch = parse_batch(build_batch(records_of(entries, 0)))
    data = bytearray(plain(batch))
    data[place % len(data)] = byte
    payload = bytes(data[: len(data) - missing])
    corrupt = parse_batch(
        seal(payload, record_count=batch.record_count, last_offset_delta=batch.last_offset_delta, base_timestamp_ms=0)
    )
    try:
        expected = read_records(corrupt, size_bytes_max=LIMIT)
        found = read_record_keys(corrupt, payload)
    except InvalidRecordError:
        return

    assert [(key.offset, key.key) for key in found] == [(record.offset, record.key) for record in expected]


@pytest.mark.parametrize("size_bytes", range(1, 17))
def test_records_that_end_early_are_an_error_with_the_index(size_bytes: int) -> None:
    batch = parse_batch(build_batch([Record(0, 0, b"k", b"v"), Record(1, 0, b"key", b"v")]))

    with pytest.raises(InvalidRecordError, match="in the batch at offset 0"):
        read_record_keys(batch, plain(batch)[:size_bytes])


def test_record_after_the_last_one_is_an_error(seal: Seal) -> None:
    data = plain(parse_batch(build_batch([Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v")])))

    with pytest.raises(InvalidRecordError, match="9 bytes are left after them"):
        read_record_keys(parse_batch(seal(data, record_count=1)), data)


def test_offset_above_that_of_the_batch_is_an_error(seal: Seal) -> None:
    data = plain(parse_batch(build_batch([Record(0, 0, b"k", b"v"), Record(1, 0, b"k", b"v")])))

    with pytest.raises(InvalidRecordError, match=r"record 1 of 2 .*it has offset 1 after 0, in a batch up to 0"):
        read_record_keys(parse_batch(seal(data, record_count=2, last_offset_delta=0)), data)


def test_timestamp_of_more_than_64_bits_is_an_error(seal: Seal) -> None:
    data = plain(parse_batch(build_batch([Record(0, 0, b"k", b"v"), Record(1, 2**62, b"k", b"v")])))
    batch = parse_batch(seal(data, record_count=2, base_timestamp_ms=2**62 + 2**61))
    keys = read_record_keys(batch, data)

    with pytest.raises(InvalidRecordError, match="more than 64 bits"):
        build_retained_batch(batch, data, keys[1:], delete_horizon_ms=None)
