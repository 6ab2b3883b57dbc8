"""Batches and message sets are exchanged with kafka-python in both directions, in every codec."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records import (
    Compression,
    Record,
    TimestampType,
    build_batch,
    parse_batch,
    read_message_set,
    read_records,
    validate_records,
)

LIMIT = 1 << 20
FIELD = st.none() | st.binary(max_size=300)
CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.label)


@st.composite
def contiguous_records(draw: st.DrawFn) -> list[Record]:
    """Draw records as producers send them; kafka-python takes no timestamp of 0 for a first one."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(1, 2**55), FIELD, FIELD, st.lists(st.tuples(st.text(max_size=8), FIELD), max_size=3)),
            min_size=1,
            max_size=15,
        )
    )
    return [Record(offset, ms, key, value, tuple(more)) for offset, (ms, key, value, more) in enumerate(rows)]


@CODECS
@given(records=contiguous_records(), producer_id=st.integers(0, 2**60), base_sequence=st.integers(0, 2**31 - 1))
def test_our_reader_reads_batches_of_kafka_python(
    kafka_python: SimpleNamespace, codec: Compression, records: list[Record], producer_id: int, base_sequence: int
) -> None:
    builder = kafka_python.default_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=4,
        base_sequence=base_sequence,
        batch_size=LIMIT,
    )
    for offset, timestamp_ms, key, value, headers in records:
        builder.append(offset, timestamp_ms, key, value, list(headers))

    batch = parse_batch(builder.build())

    batch.check_crc()
    assert read_records(batch, size_bytes_max=LIMIT) == records
    assert validate_records(batch, size_bytes_max=LIMIT).record_count == len(records)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (producer_id, 4, base_sequence)
    assert batch.is_transactional
    assert batch.last_offset == len(records) - 1


@CODECS
@given(
    records=contiguous_records(),
    base_offset=st.integers(0, 2**60),
    base_sequence=st.integers(-1, 2**31 - 1),
    log_append_time_ms=st.none() | st.integers(1, 2**60),
)
def test_kafka_python_reads_our_batches(
    kafka_python: SimpleNamespace,
    codec: Compression,
    records: list[Record],
    base_offset: int,
    base_sequence: int,
    log_append_time_ms: int | None,
) -> None:
    records = [record._replace(offset=base_offset + record.offset) for record in records]
    is_append_time = log_append_time_ms is not None
    data = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=3,
        compression=codec,
        timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
        log_append_time_ms=log_append_time_ms,
        producer_id=8,
        producer_epoch=1,
        base_sequence=base_sequence,
    )
    ours, theirs = parse_batch(data), kafka_python.default_records.DefaultRecordBatch(data)

    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.last_offset) == (ours.base_offset, ours.last_offset)
    assert (theirs.crc, theirs.attributes, theirs.leader_epoch) == (ours.crc, ours.attributes, 3)
    assert (theirs.base_sequence, theirs.last_sequence) == (ours.base_sequence, ours.last_sequence)
    assert (theirs.max_timestamp, theirs.timestamp_type) == (ours.max_timestamp_ms, ours.timestamp_type)
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in theirs
    ] == read_records(ours, size_bytes_max=LIMIT)


# kafka-python writes lz4 of magic 0 only with another package, and zstd only in batches.
@pytest.mark.parametrize(
    ("magic", "codec"),
    [
        pytest.param(0, Compression.NONE, id="v0-none"),
        pytest.param(0, Compression.GZIP, id="v0-gzip"),
        pytest.param(0, Compression.SNAPPY, id="v0-snappy"),
        pytest.param(1, Compression.NONE, id="v1-none"),
        pytest.param(1, Compression.GZIP, id="v1-gzip"),
        pytest.param(1, Compression.SNAPPY, id="v1-snappy"),
        pytest.param(1, Compression.LZ4, id="v1-lz4"),
    ],
)
@given(records=contiguous_records())
def test_our_reader_reads_message_sets_of_kafka_python(
    kafka_python: SimpleNamespace, magic: int, codec: Compression, records: list[Record]
) -> None:
    builder = kafka_python.legacy_records.LegacyRecordBatchBuilder(magic, int(codec), LIMIT)
    for offset, timestamp_ms, key, value, _ in records:
        builder.append(offset, timestamp_ms, key, value)

    messages = list(read_message_set(bytes(builder.build()), size_bytes_max=LIMIT, strict=True))

    assert all(message.is_crc_valid and message.magic == magic for message in messages)
    assert [message.record[2:4] for message in messages] == [record[2:4] for record in records]
    if magic:
        assert [message.record.timestamp_ms for message in messages] == [record.timestamp_ms for record in records]
