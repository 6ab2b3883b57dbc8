"""Built batches can be read: any records, any header, any codec; invalid arguments are rejected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records import (
    HEADER_SIZE_BYTES,
    Compression,
    Record,
    RecordBatchBuilder,
    TimestampType,
    build_batch,
    parse_batch,
    read_records,
    validate_records,
)

LIMIT = 1 << 20
FIELD = st.none() | st.binary(max_size=200)
TIMESTAMP_MS = st.integers(0, 2**62) | st.just(-1)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(1, 20))):
        headers = draw(st.lists(st.tuples(st.text(max_size=10), FIELD), max_size=4))
        records.append(Record(offset, draw(TIMESTAMP_MS), draw(FIELD), draw(FIELD), tuple(headers)))
        offset += draw(st.sampled_from([1, 1, 1, 2, 1_000_000]))
    return records


@given(records=record_lists(), compression=st.sampled_from(Compression), before=st.integers(0, 1_000))
def test_records_round_trip(records: list[Record], compression: Compression, before: int) -> None:
    base_offset = max(records[0].offset - before, 0)

    batch = parse_batch(build_batch(records, base_offset=base_offset, compression=compression))

    batch.check_crc()
    assert read_records(batch, size_bytes_max=LIMIT) == records
    assert (batch.base_offset, batch.last_offset) == (base_offset, records[-1].offset)
    assert batch.record_count == len(records)
    assert batch.base_timestamp_ms == records[0].timestamp_ms
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(records=record_lists(), compression=st.sampled_from(Compression))
def test_contiguous_records_are_valid(records: list[Record], compression: Compression) -> None:
    dense = [record._replace(offset=index) for index, record in enumerate(records)]

    summary = validate_records(parse_batch(build_batch(dense, compression=compression)), size_bytes_max=LIMIT)

    timestamps_ms = [record.timestamp_ms for record in dense]
    assert summary.record_count == len(dense)
    assert summary.min_timestamp_ms == min(timestamps_ms)
    assert summary.max_timestamp_ms == max(timestamps_ms)
    assert summary.max_timestamp_offset == timestamps_ms.index(max(timestamps_ms))
    assert summary.null_key_indexes == tuple(record.offset for record in dense if record.key is None)


@given(
    leader_epoch=st.integers(-1, 2**31 - 1),
    producer_id=st.integers(-1, 2**63 - 1),
    producer_epoch=st.integers(-1, 2**15 - 1),
    base_sequence=st.integers(-1, 2**31 - 1),
    is_transactional=st.booleans(),
    is_control=st.booleans(),
)
def test_header_fields_round_trip(**fields: Any) -> None:
    batch = parse_batch(build_batch([Record(0, 5, b"k", b"v")], **fields))

    batch.check_crc()
    assert {name: getattr(batch, name) for name in fields} == fields


def test_builder_counts_size_and_records() -> None:
    builder = RecordBatchBuilder(base_offset=10)
    assert (builder.record_count, builder.size_bytes) == (0, HEADER_SIZE_BYTES)

    assert builder.append(timestamp_ms=1, key=None, value=b"a") == 10
    assert builder.append(timestamp_ms=2, key=None, value=b"b", offset=15) == 15
    assert builder.append(timestamp_ms=3, key=None, value=b"c", headers=[("h", b"v")]) == 16

    data = builder.build()
    assert builder.record_count == 3
    assert builder.size_bytes == len(data)
    assert [record.offset for record in read_records(parse_batch(data), size_bytes_max=LIMIT)] == [10, 15, 16]


def test_build_does_not_change_the_builder() -> None:
    builder = RecordBatchBuilder(compression=Compression.GZIP)
    builder.append(timestamp_ms=1, key=None, value=b"a")

    assert builder.build() == builder.build()
    builder.append(timestamp_ms=1, key=None, value=b"b")
    assert parse_batch(builder.build()).record_count == 2


def test_log_append_time_is_the_header_s_maximum() -> None:
    data = build_batch(
        [Record(0, 900, None, b"v")], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=50
    )

    batch = parse_batch(data)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (900, 50)


def test_delete_horizon_replaces_the_base_timestamp() -> None:
    batch = parse_batch(build_batch([Record(0, 900, b"k", None)], delete_horizon_ms=5_000))

    assert batch.delete_horizon_ms == batch.base_timestamp_ms == 5_000
    assert read_records(batch, size_bytes_max=LIMIT) == [Record(0, 900, b"k", None)]


@pytest.mark.parametrize(
    ("timestamp_type", "log_append_time_ms"),
    [(TimestampType.LOG_APPEND_TIME, None), (TimestampType.CREATE_TIME, 5)],
)
def test_log_append_time_and_its_type_come_together(
    timestamp_type: TimestampType, log_append_time_ms: int | None
) -> None:
    with pytest.raises(ValueError, match=f"is {log_append_time_ms} in a batch with {timestamp_type.label}"):
        RecordBatchBuilder(timestamp_type=timestamp_type, log_append_time_ms=log_append_time_ms)


@pytest.mark.parametrize(
    "offset",
    [
        pytest.param(9, id="below-the-base"),
        pytest.param(20, id="the-last-again"),
        pytest.param(10 + 2**31, id="too-far-from-the-base"),
    ],
)
def test_offset_that_is_not_above_the_last_is_rejected(offset: int) -> None:
    builder = RecordBatchBuilder(base_offset=10)
    builder.append(timestamp_ms=0, key=None, value=None, offset=20)

    with pytest.raises(ValueError, match=f"offset {offset} cannot follow 20 in a batch from 10"):
        builder.append(timestamp_ms=0, key=None, value=None, offset=offset)
    assert builder.record_count == 1


def test_largest_offset_delta_is_2_to_the_31_minus_1() -> None:
    data = build_batch([Record(10 + 2**31 - 1, 0, None, None)], base_offset=10)

    assert parse_batch(data).last_offset_delta == 2**31 - 1


@pytest.mark.parametrize("last_offset", [11, 12, 500])
def test_last_offset_of_a_batch_may_be_above_its_last_record(last_offset: int) -> None:
    batch = parse_batch(build_batch([Record(11, 0, None, None)], base_offset=10, last_offset=last_offset))

    assert batch.last_offset == last_offset


def test_last_offset_below_the_last_record_is_rejected() -> None:
    with pytest.raises(ValueError, match="10 is below the last record's, 11"):
        build_batch([Record(11, 0, None, None)], base_offset=10, last_offset=10)


def test_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])
