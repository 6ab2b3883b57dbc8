"""Zigzag varints: every width round-trips, and numbers that are too long or too large are rejected."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import InvalidRecordError
from ottla.wire.records.varint import ZIGZAG, encode_varint, read_varint, read_varlong


def read(data: bytes, position: int = 0) -> tuple[int, int]:
    """Read as the callers do: one-byte numbers by the table."""
    byte = data[position]
    return (ZIGZAG[byte], position + 1) if byte < 0x80 else read_varlong(data, position)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_known_values(value: int, encoded: str) -> None:
    data = bytes.fromhex(encoded)

    assert encode_varint(value) == data
    assert read(data) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=4))
def test_64_bits_round_trip_at_any_position(value: int, before: bytes) -> None:
    data = before + encode_varint(value) + b"\x80"

    assert read(data, len(before)) == (value, len(data) - 1)


@given(st.integers(-(2**31), 2**31 - 1).filter(lambda value: not -64 <= value <= 63))
def test_32_bits_round_trip(value: int) -> None:
    data = encode_varint(value)

    assert read_varint(data, 0) == (value, len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_kafka_python_agrees(kafka_python: SimpleNamespace, value: int) -> None:
    theirs = bytearray()
    kafka_python.util.encode_varint(value, theirs.append)

    assert encode_varint(value) == theirs
    assert kafka_python.util.decode_varint(theirs)[0] == value


@pytest.mark.parametrize(
    ("reader", "encoded"),
    [
        pytest.param(read_varint, "ffffffff1f", id="33-bits"),
        pytest.param(read_varint, "ffffffffff00", id="six-bytes"),
        pytest.param(read_varint, "808080808080808080808080", id="endless"),
        pytest.param(read_varlong, "ffffffffffffffffff02", id="65-bits"),
        pytest.param(read_varlong, "ffffffffffffffffffff00", id="eleven-bytes"),
    ],
)
def test_wider_numbers_are_rejected(reader: Callable[[bytes, int], tuple[int, int]], encoded: str) -> None:
    with pytest.raises(InvalidRecordError, match="bits"):
        reader(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["80", "8080", "80808080"])
@pytest.mark.parametrize("reader", [read_varint, read_varlong])
def test_truncated_numbers_are_index_errors(reader: Callable[[bytes, int], tuple[int, int]], encoded: str) -> None:
    with pytest.raises(IndexError):
        reader(bytes.fromhex(encoded), 0)
