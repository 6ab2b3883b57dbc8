"""Zigzag varints, as in protocol buffers: seven bits per byte, the lowest first, the sign in bit 0.

Both readers require that the first byte has its top bit set: the frequent one-byte numbers are read in place, through
`ZIGZAG`, because a call costs more than the number.

Source: ByteUtils.readVarint and writeVarint of Kafka. Java drops bits beyond the type's width; here they are an error.
"""

from typing import Final

from ottla.errors import InvalidRecordError

ZIGZAG: Final = tuple((number >> 1) ^ -(number & 1) for number in range(128))
"""The number of each one-byte varint."""

_ONE_BYTE: Final = tuple(bytes((number,)) for number in range(128))


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the 32-bit number at ``position`` and its end.

    Raises:
        IndexError: the bytes end before the number does.
        InvalidRecordError: it is longer than five bytes, or more than 32 bits.
    """
    second = data[position + 1]
    if second < 0x80:
        number = data[position] & 0x7F | second << 7
        return (number >> 1) ^ -(number & 1), position + 2
    return _read_longer(data, position, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """Return the 64-bit number at ``position`` and its end.

    Raises:
        IndexError: the bytes end before the number does.
        InvalidRecordError: it is longer than ten bytes, or more than 64 bits.
    """
    second = data[position + 1]
    if second < 0x80:
        number = data[position] & 0x7F | second << 7
        return (number >> 1) ^ -(number & 1), position + 2
    return _read_longer(data, position, 64)


def _read_longer(data: bytes, position: int, bits: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            break
    if shift >= bits or number >> bits:
        raise InvalidRecordError(f"the varint before byte {position} of its records has more than {bits} bits")
    return (number >> 1) ^ -(number & 1), position


def encode_varint(value: int) -> bytes:
    """Return ``value`` (-2^63 to 2^63 - 1) as a varint of 1 to 10 bytes."""
    number = (value << 1) ^ (value >> 63)
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
