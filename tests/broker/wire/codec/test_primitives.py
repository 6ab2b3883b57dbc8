"""Varints and tagged sections, with their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ProtocolError
from ottla.wire.codec.primitives import (
    STRING_BYTES_MAX,
    pack_many,
    read_string_length,
    read_uvarint,
    string_length,
    unpack_many,
    uvarint,
    write_tags,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "80 01"),
        (16_383, "ff 7f"),
        (16_384, "80 80 01"),
        (2**31 - 1, "ff ff ff ff 07"),
        (2**32 - 1, "ff ff ff ff 0f"),
    ],
)
def test_varint_has_seven_bits_per_byte(value: int, expected: str) -> None:
    assert uvarint(value).hex(" ") == expected
    assert read_uvarint(bytes.fromhex(expected), 0) == (value, len(bytes.fromhex(expected)))


@given(value=st.integers(0, 2**32 - 1), lead=st.binary(max_size=3), tail=st.binary(max_size=3))
def test_varint_is_read_at_any_position(value: int, lead: bytes, tail: bytes) -> None:
    encoded = uvarint(value)

    assert read_uvarint(lead + encoded + tail, len(lead)) == (value, len(lead) + len(encoded))


def test_varint_of_six_bytes_is_rejected() -> None:
    with pytest.raises(ProtocolError, match="longer than five bytes"):
        read_uvarint(b"\x80" * 5 + b"\x01", 0)


def test_truncated_varint_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        read_uvarint(b"\x80\x80", 0)


def test_string_length_is_limited_to_int16() -> None:
    longest = string_length(STRING_BYTES_MAX + 1)

    assert read_string_length(longest, 0) == (STRING_BYTES_MAX + 1, 3)
    with pytest.raises(ValueError, match="32768 bytes is longer than 32767"):
        string_length(STRING_BYTES_MAX + 2)
    with pytest.raises(ProtocolError, match="claims 32768 bytes"):
        read_string_length(uvarint(STRING_BYTES_MAX + 2), 0)


def test_tags_are_written_in_order_with_their_sizes() -> None:
    out = bytearray(b"x")
    write_tags(out, [(300, b"three"), (0, b""), (7, b"s")])

    assert bytes(out) == b"x\x03" + b"\x00\x00" + b"\x07\x01s" + b"\xac\x02\x05three"


@pytest.mark.parametrize("count", [1, 16, 17, 1_000])
@pytest.mark.parametrize(
    ("form", "size", "value"),
    [("i", 4, -5), ("h", 2, 300), ("q", 8, 2**40), ("b", 1, -1), ("16s", 16, bytes(range(16)))],
)
def test_lists_of_one_kind_are_packed_whole(form: str, size: int, value: object, count: int) -> None:
    packed = pack_many(form, [value] * count)  # type: ignore[list-item]

    assert len(packed) == count * size
    assert unpack_many(form, size, count, b"lead" + packed, 4) == [value] * count
