"""Message sets of magic 0 and 1: plain and wrapped, absolute offsets and timestamps, rejection of invalid ones."""

import contextlib
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptRecordError
from ottla.wire.records import Compression, LegacyMessage, Record, TimestampType, compress, read_message_set

LIMIT = 1 << 20
BOTH = pytest.mark.parametrize("magic", [0, 1])


def field(value: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    timestamp_ms: int = 0,
    attributes: int = 0,
    tail: bytes = b"",
    crc_change: int = 0,
) -> bytes:
    body = bytes((magic, attributes))
    body += timestamp_ms.to_bytes(8, "big", signed=True) if magic == 1 else b""
    body += field(key) + field(value) + tail
    crc = zlib.crc32(body) ^ crc_change
    return offset.to_bytes(8, "big", signed=True) + (4 + len(body)).to_bytes(4, "big") + crc.to_bytes(4, "big") + body


def read(data: bytes, *, strict: bool = True) -> list[LegacyMessage]:
    return list(read_message_set(data, size_bytes_max=LIMIT, strict=strict))


@BOTH
def test_plain_messages_are_read(magic: int) -> None:
    first = message(70, b"key", b"value", magic=magic, timestamp_ms=1_000)
    second = message(75, None, None, magic=magic, timestamp_ms=900)

    messages = read(first + second)

    timestamps_ms = [1_000, 900] if magic else [-1, -1]
    assert [entry.record for entry in messages] == [
        Record(70, timestamps_ms[0], b"key", b"value"),
        Record(75, timestamps_ms[1], None, None),
    ]
    assert [(entry.position, entry.size_bytes) for entry in messages] == [
        (0, len(first)),
        (len(first), len(second)),
    ]
    assert {entry.magic for entry in messages} == {magic}
    assert {entry.compression for entry in messages} == {Compression.NONE}
    assert {entry.timestamp_type for entry in messages} == {TimestampType.CREATE_TIME if magic else None}
    assert all(entry.is_crc_valid for entry in messages)


@pytest.mark.parametrize("kind", list(Compression)[1:], ids=lambda kind: kind.label)
def test_wrapped_messages_of_magic_1_have_relative_offsets(kind: Compression) -> None:
    inner = b"".join(message(offset, b"k", b"v", timestamp_ms=offset) for offset in range(3))
    wrapper = message(92, None, compress(kind, inner), timestamp_ms=2, attributes=kind)

    messages = read(message(89, None, b"before") + wrapper)

    assert [entry.record.offset for entry in messages] == [89, 90, 91, 92]
    assert [entry.record.timestamp_ms for entry in messages] == [0, 0, 1, 2]
    assert [entry.compression for entry in messages] == [Compression.NONE, kind, kind, kind]
    assert {entry.size_bytes for entry in messages[1:]} == {len(wrapper)}


def test_wrapped_messages_of_magic_1_may_have_gaps() -> None:
    inner = b"".join(message(offset, b"k", b"v") for offset in (0, 2, 5))

    messages = read(message(105, None, compress(Compression.GZIP, inner), attributes=1))

    assert [entry.record.offset for entry in messages] == [100, 102, 105]


@pytest.mark.parametrize(("wrapper_offset", "base_offset"), [(0, 0), (6, 0), (7, 1)])
def test_wrapper_without_an_assigned_offset_starts_at_0(wrapper_offset: int, base_offset: int) -> None:
    inner = b"".join(message(offset, b"k", b"v") for offset in range(7))

    messages = read(message(wrapper_offset, None, compress(Compression.GZIP, inner), attributes=1))

    assert [entry.record.offset for entry in messages] == list(range(base_offset, base_offset + 7))


def test_wrapped_messages_of_magic_0_have_absolute_offsets() -> None:
    inner = b"".join(message(offset, b"k", b"v", magic=0) for offset in (40, 41))

    messages = read(message(41, None, compress(Compression.GZIP, inner), magic=0, attributes=1))

    assert [entry.record.offset for entry in messages] == [40, 41]


def test_inner_messages_have_the_log_append_time_of_their_wrapper() -> None:
    inner = b"".join(message(offset, b"k", b"v", timestamp_ms=5) for offset in range(2))

    messages = read(message(1, None, compress(Compression.GZIP, inner), timestamp_ms=800, attributes=0x09))

    assert {entry.record.timestamp_ms for entry in messages} == {800}
    assert {entry.timestamp_type for entry in messages} == {TimestampType.LOG_APPEND_TIME}


def test_lz4_of_magic_0_is_read_with_its_wrong_descriptor_checksum() -> None:
    frame = bytearray(compress(Compression.LZ4, message(0, b"k", b"v", magic=0)))
    frame[6] ^= 0xFF

    (entry,) = read(message(0, None, bytes(frame), magic=0, attributes=3))

    assert entry.record == Record(0, -1, b"k", b"v")
    inner_of_magic_1 = bytearray(compress(Compression.LZ4, message(0, b"k", b"v")))
    inner_of_magic_1[6] ^= 0xFF
    with pytest.raises(CorruptRecordError, match="lz4"):
        read(message(0, None, bytes(inner_of_magic_1), attributes=3))


def test_wrong_crc_is_reported_for_that_message_only() -> None:
    entries = read(message(0, b"k", b"v") + message(1, b"k", b"v", crc_change=1))

    assert [entry.is_crc_valid for entry in entries] == [True, False]


@pytest.mark.parametrize(
    ("wrapper_change", "inner_change", "expected"),
    [(0, 0, [True, True]), (0, 1, [True, False]), (1, 0, [False, False])],
)
def test_wrong_crc_of_a_wrapper_is_reported_for_all_inner_messages(
    wrapper_change: int, inner_change: int, expected: list[bool]
) -> None:
    inner = message(0, b"k", b"v") + message(1, b"k", b"v", crc_change=inner_change)
    value = compress(Compression.GZIP, inner)

    entries = read(message(1, None, value, attributes=1, crc_change=wrapper_change))

    assert [entry.is_crc_valid for entry in entries] == expected


@BOTH
def test_partial_message_ends_the_set_or_is_an_error(magic: int) -> None:
    whole = message(0, b"key", b"value", magic=magic)
    second = message(1, b"key", b"value", magic=magic)

    for size_bytes in range(1, len(second)):
        cut = whole + second[:size_bytes]
        assert [entry.record.offset for entry in read(cut, strict=False)] == [0]
        with pytest.raises(CorruptRecordError, match=f"message at byte {len(whole)}"):
            read(cut)


@BOTH
@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("size_bytes", [-(2**31), -1, 0, 13])
def test_sizes_below_an_empty_message_are_rejected(magic: int, strict: bool, size_bytes: int) -> None:
    data = bytearray(message(0, b"key", b"value", magic=magic))
    data[8:12] = size_bytes.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptRecordError, match=f"gives its size as {size_bytes}"):
        read(bytes(data), strict=strict)


def test_smallest_message_of_magic_1_has_22_bytes() -> None:
    assert read(message(3, None, None))[0].record == Record(3, 0, None, None)
    data = bytearray(message(0, None, None, magic=0))
    data[16] = 1
    with pytest.raises(CorruptRecordError, match="the least for magic 1 is 22"):
        read(bytes(data))


@pytest.mark.parametrize("magic", [-1, 2, 3])
def test_other_magics_are_rejected(magic: int) -> None:
    data = bytearray(message(0, b"key", b"value"))
    data[16] = magic & 0xFF

    with pytest.raises(CorruptRecordError, match=f"has magic {magic};"):
        read(bytes(data))


@pytest.mark.parametrize("position", [26, 33], ids=["key", "value"])
@pytest.mark.parametrize("size_bytes", [100, 2**31 - 1])
def test_field_sizes_beyond_the_message_are_rejected(position: int, size_bytes: int) -> None:
    data = bytearray(message(0, b"key", b"value") + message(1, None, None))
    data[position : position + 4] = size_bytes.to_bytes(4, "big")

    with pytest.raises(CorruptRecordError, match=f"key or value of {size_bytes} bytes"):
        read(bytes(data))


def test_key_that_overlaps_the_value_is_rejected() -> None:
    data = bytearray(message(0, b"key", b""))
    data[26:30] = (6).to_bytes(4, "big")

    with pytest.raises(CorruptRecordError, match="ends before the size of its key or value"):
        read(bytes(data))


def test_bytes_after_the_value_are_rejected() -> None:
    with pytest.raises(CorruptRecordError, match="2 bytes after its value"):
        read(message(0, b"key", b"value", tail=b"xx"))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_kafka_does_not_have_are_rejected(codec: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"codec {codec}"):
        read(message(0, None, b"v", attributes=codec))


PLAIN = message(0, b"k", b"v")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(None, "no value to decompress", id="null"),
        pytest.param(compress(Compression.GZIP, b""), "wraps no messages", id="nothing"),
        pytest.param(b"not gzip", "cannot be decompressed", id="garbage"),
        pytest.param(compress(Compression.GZIP, PLAIN[:-1]), "message at byte 0", id="cut-off"),
        pytest.param(
            compress(Compression.GZIP, message(0, b"k", b"v", magic=0)), "wraps a message of magic 0", id="magic"
        ),
        pytest.param(
            compress(Compression.GZIP, message(0, None, compress(Compression.GZIP, PLAIN), attributes=1)),
            "compression gzip; it may wrap plain ones",
            id="wrapper-in-a-wrapper",
        ),
        pytest.param(
            compress(Compression.GZIP, message(6, b"k", b"v")), "they would start below 0", id="relative-offset"
        ),
        pytest.param(compress(Compression.GZIP, bytes(LIMIT + 1)), "more than the allowed", id="bomb"),
    ],
)
def test_invalid_wrapper_is_rejected(value: bytes | None, reason: str) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        read(message(5, None, value, attributes=1))


@given(st.data())
def test_corrupted_messages_are_read_or_rejected_but_never_break(data: st.DataObject) -> None:
    inner = PLAIN + message(1, None, b"value")
    corrupted = bytearray(PLAIN + message(2, None, compress(Compression.GZIP, inner), attributes=1))
    for _ in range(data.draw(st.integers(1, 4))):
        corrupted[data.draw(st.integers(0, len(corrupted) - 1))] = data.draw(st.integers(0, 255))

    for strict in (True, False):
        try:
            read(bytes(corrupted), strict=strict)
        except CorruptRecordError:
            continue


@given(st.binary(max_size=100))
def test_random_bytes_are_read_or_rejected(data: bytes) -> None:
    with contextlib.suppress(CorruptRecordError):
        read(data)
