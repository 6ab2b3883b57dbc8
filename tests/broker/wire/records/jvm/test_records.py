"""Batches are exchanged with Kafka's own classes in both directions, for every codec, format and header field."""

from collections.abc import Callable
from typing import Any

import cramjam
import pytest

from ottla.errors import CorruptRecordError
from ottla.wire.records import (
    HEADER_SIZE_BYTES,
    Compression,
    ControlRecordType,
    Record,
    TimestampType,
    build_batch,
    build_end_transaction_marker,
    compress,
    parse_batch,
    parse_control_key,
    parse_end_transaction_value,
    read_message_set,
    read_records,
    validate_records,
)

pytestmark = pytest.mark.interop

NOW_MS = 1_763_700_000_000
RECORDS = [
    Record(500, NOW_MS, b"key", b"value"),
    Record(501, NOW_MS - 5_000, None, b"a null key and a timestamp that goes back"),
    Record(502, NOW_MS + 1, b"tombstone", None),
    Record(503, NOW_MS + 86_400_000, None, None),
    Record(504, NOW_MS, b"", b"", (("trace", b"\x00\x01"), ("empty", b""), ("null", None), ("trace", b"again"))),
    Record(505, 0, b"\xff" * 200, bytes(range(256)) * 300, (("gr\u00fc\u00df \u2713", b"x" * 100),)),
    Record(506, 2**62, b"far future", b"v"),
]
PLAIN_RECORDS = [record._replace(headers=()) for record in RECORDS]
CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.label)
HEADERS = pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="producer-without-id"),
        pytest.param({"producer_id": 4_000, "producer_epoch": 3, "base_sequence": 17}, id="idempotent"),
        pytest.param({"producer_id": 2**62, "producer_epoch": 32_767, "base_sequence": 2**31 - 3}, id="sequence-wraps"),
        pytest.param(
            {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True},
            id="transactional",
        ),
        pytest.param({"leader_epoch": 12}, id="leader-epoch"),
        pytest.param({"log_append_time_ms": NOW_MS + 7}, id="log-append-time"),
    ],
)


def ours(codec: Compression, options: dict[str, Any]) -> bytes:
    is_append_time = "log_append_time_ms" in options
    timestamp_type = TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
    return build_batch(RECORDS, base_offset=500, compression=codec, timestamp_type=timestamp_type, **options)


def theirs(jvm: Any, codec: Compression, options: dict[str, Any]) -> bytes:
    is_append_time = "log_append_time_ms" in options
    data: bytes = jvm.write(RECORDS, codec=codec.label, base_offset=500, is_append_time=is_append_time, **options)
    return data


def as_read(options: dict[str, Any]) -> list[Record]:
    append_time_ms = options.get("log_append_time_ms")
    if append_time_ms is None:
        return RECORDS
    return [record._replace(timestamp_ms=append_time_ms) for record in RECORDS]


@HEADERS
def test_plain_batch_has_the_bytes_of_the_jvm(jvm: Any, options: dict[str, Any]) -> None:
    assert ours(Compression.NONE, options).hex() == theirs(jvm, Compression.NONE, options).hex()


@CODECS
@HEADERS
def test_our_reader_reads_batches_of_the_jvm(jvm: Any, codec: Compression, options: dict[str, Any]) -> None:
    batch = parse_batch(theirs(jvm, codec, options))
    batch.check_crc()

    assert batch.compression is codec
    assert read_records(batch, size_bytes_max=1 << 20) == as_read(options)
    assert validate_records(batch, size_bytes_max=1 << 20).max_timestamp_offset == 506


@CODECS
@HEADERS
def test_jvm_reads_our_batches(jvm: Any, codec: Compression, options: dict[str, Any]) -> None:
    data = ours(codec, options)
    batch = parse_batch(data)

    (facts,) = jvm.read(data)

    assert facts.pop("records") == as_read(options)
    assert facts == {
        "magic": batch.magic,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "next_offset": batch.next_offset,
        "size_bytes": batch.size_bytes,
        "crc": batch.crc,
        "leader_epoch": batch.leader_epoch,
        "codec": batch.compression.label,
        "timestamp_type": batch.timestamp_type.label,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "delete_horizon_ms": batch.delete_horizon_ms,
    }


def test_jvm_reads_the_delete_horizon(jvm: Any) -> None:
    data = build_batch(RECORDS, base_offset=500, delete_horizon_ms=NOW_MS + 60_000)

    (facts,) = jvm.read(data)

    assert facts["delete_horizon_ms"] == parse_batch(data).delete_horizon_ms == NOW_MS + 60_000
    assert facts["records"] == RECORDS


def test_jvm_reads_the_last_offset_of_a_compacted_batch(jvm: Any) -> None:
    data = build_batch([RECORDS[1], RECORDS[4]], base_offset=498, last_offset=510)

    (facts,) = jvm.read(data)

    assert (facts["base_offset"], facts["last_offset"]) == (498, 510)
    assert facts["records"] == read_records(parse_batch(data), size_bytes_max=1 << 20)


@pytest.mark.parametrize("record_type", [ControlRecordType.ABORT, ControlRecordType.COMMIT])
def test_transaction_markers_have_the_bytes_of_the_jvm(jvm: Any, record_type: ControlRecordType) -> None:
    facts = {"base_offset": 77, "timestamp_ms": NOW_MS, "producer_id": 9, "producer_epoch": 4, "leader_epoch": 2}
    data = build_end_transaction_marker(record_type, coordinator_epoch=31, **facts)

    assert data.hex() == jvm.write_marker(type=record_type.name, coordinator_epoch=31, **facts).hex()
    (record,) = read_records(parse_batch(data), size_bytes_max=1 << 20)
    assert parse_control_key(record.key) is record_type
    assert parse_end_transaction_value(record.value) == 31


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_our_reader_reads_message_sets_of_the_jvm(jvm: Any, magic: int, codec: Compression) -> None:
    data = jvm.write(PLAIN_RECORDS, magic=magic, codec=codec.label, base_offset=500)

    messages = list(read_message_set(data, size_bytes_max=1 << 20, strict=True))

    expected = PLAIN_RECORDS if magic else [record._replace(timestamp_ms=-1) for record in PLAIN_RECORDS]
    assert [message.record for message in messages] == expected
    assert all(message.is_crc_valid and message.magic == magic for message in messages)
    assert {message.compression for message in messages} == {codec}


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_messages_with_log_append_time_have_the_brokers_time(jvm: Any, codec: Compression) -> None:
    data = jvm.write(
        PLAIN_RECORDS,
        magic=1,
        codec=codec.label,
        base_offset=500,
        is_append_time=True,
        log_append_time_ms=NOW_MS + 9,
    )

    messages = list(read_message_set(data, size_bytes_max=1 << 20))

    assert {message.record.timestamp_ms for message in messages} == {NOW_MS + 9}
    assert {message.timestamp_type for message in messages} == {TimestampType.LOG_APPEND_TIME}


@CODECS
def test_truncated_payloads_are_rejected_like_in_the_jvm(jvm: Any, codec: Compression) -> None:
    whole = build_batch(RECORDS[:3], base_offset=500, compression=codec)
    for size_bytes in range(HEADER_SIZE_BYTES, len(whole)):
        cut = bytearray(whole[:size_bytes])
        cut[8:12] = (size_bytes - 12).to_bytes(4, "big")
        batch = parse_batch(cut)
        cut[17:21] = batch.compute_crc().to_bytes(4, "big")
        try:
            read_records(parse_batch(cut), size_bytes_max=1 << 20)
        except CorruptRecordError:
            continue
        assert jvm.error_for(bytes(cut)) is None, f"we read {size_bytes} of {len(whole)} bytes, the JVM does not"


def payload_of(records: list[Record]) -> bytes:
    return bytes(parse_batch(build_batch(records, base_offset=500)).payload)


def in_two(payload: bytes) -> tuple[bytes, bytes]:
    return payload[: len(payload) // 2], payload[len(payload) // 2 :]


def two_streams(codec: Compression) -> bytes:
    return b"".join(compress(codec, half) for half in in_two(payload_of(RECORDS)))


def bare_snappy() -> bytes:
    return bytes(cramjam.snappy.compress_raw(payload_of(RECORDS)))


@pytest.mark.parametrize(
    ("codec", "make"),
    [
        pytest.param(Compression.GZIP, lambda: two_streams(Compression.GZIP), id="gzip-two-members"),
        pytest.param(
            Compression.GZIP, lambda: compress(Compression.GZIP, payload_of(RECORDS)) + b"\0rest", id="gzip-rest"
        ),
        pytest.param(Compression.SNAPPY, lambda: two_streams(Compression.SNAPPY), id="snappy-two-streams"),
        pytest.param(Compression.SNAPPY, bare_snappy, id="snappy-bare-block"),
        pytest.param(Compression.LZ4, lambda: compress(Compression.LZ4, payload_of(RECORDS)) + b"rest", id="lz4-rest"),
        pytest.param(Compression.ZSTD, lambda: two_streams(Compression.ZSTD), id="zstd-two-frames"),
    ],
)
def test_streams_that_the_jvm_accepts_are_accepted(
    jvm: Any, seal: Callable[..., bytes], codec: Compression, make: Callable[[], bytes]
) -> None:
    data = seal(
        make(),
        attributes=codec,
        base_offset=500,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=2**62,
        record_count=len(RECORDS),
    )

    (facts,) = jvm.read(data)

    assert facts["records"] == RECORDS
    assert read_records(parse_batch(data), size_bytes_max=1 << 20) == RECORDS


def test_bytes_after_the_first_lz4_frame_are_ignored_like_in_the_jvm(jvm: Any, seal: Callable[..., bytes]) -> None:
    data = seal(two_streams(Compression.LZ4), attributes=3, base_offset=500, record_count=len(RECORDS))

    assert jvm.error_for(data) is not None
    with pytest.raises(CorruptRecordError):
        read_records(parse_batch(data), size_bytes_max=1 << 20)


@pytest.mark.parametrize(
    ("payload", "record_count"),
    [
        pytest.param(b"", 1, id="nothing"),
        pytest.param(b"\x0c\0\0\0\x01\x01\0", 2, id="count-above"),
        pytest.param(b"\x0c\0\0\0\x01\x01\0", -1, id="count-negative"),
        pytest.param(b"\x0c\0\0\0\x01\x01\0\0", 1, id="a-byte-too-many"),
        pytest.param(b"\x0e\0\0\0\x01\x01\0", 1, id="size-above"),
        pytest.param(b"\x0a\0\0\0\x01\x01\0", 1, id="size-below"),
        pytest.param(b"\x0c\0\0\0\x01\x01\x02", 1, id="header-count-above"),
        pytest.param(b"\x0c\0\0\0\x01\x01\x01", 1, id="header-count-negative"),
        pytest.param(b"\x10\0\0\0\x01\x01\x02\x01\x01", 1, id="header-without-key"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff", 1, id="endless-varint"),
    ],
)
def test_streams_that_the_jvm_rejects_are_rejected(
    jvm: Any, seal: Callable[..., bytes], payload: bytes, record_count: int
) -> None:
    data = seal(payload, record_count=record_count)

    assert jvm.error_for(data) is not None
    with pytest.raises(CorruptRecordError):
        read_records(parse_batch(data), size_bytes_max=1 << 20)
