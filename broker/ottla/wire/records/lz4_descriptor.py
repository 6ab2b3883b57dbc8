"""The lz4 frame's descriptor as messages of magic 0 wrote it: its checksum covers four bytes too many.

Kafka before 0.10 computed the descriptor's checksum over the frame's magic number as well (KAFKA-3160), and
its readers ignore it in messages of magic 0. The lz4 library always checks it, so it is replaced by the right one.

====== ===== ==========================================================================
offset bytes field (little-endian; the descriptor is the bytes from 4 to the checksum)
====== ===== ==========================================================================
0      4     magic number, 0x184D2204
4      1     flags: bit 3 a content size follows, bit 0 a dictionary id follows
5      1     block size
6      0-12  content size (8) and dictionary id (4)
...    1     bits 8-15 of the xxHash32 of the descriptor
====== ===== ==========================================================================

Source: LZ4 frame format 1.6; xxHash specification 0.1.1; KAFKA-3160.
"""

from typing import Final

from ottla.ports import Buffer

_MAGIC_SIZE_BYTES: Final = 4
_CONTENT_SIZE_BIT: Final = 0x08
_DICTIONARY_BIT: Final = 0x01
_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393


def with_correct_checksum(frame: Buffer) -> bytes:
    """Return a copy of ``frame`` with the right checksum of its descriptor; a too short frame is not changed."""
    fixed = bytearray(frame)
    if len(fixed) <= _MAGIC_SIZE_BYTES:
        return bytes(fixed)
    flags = fixed[_MAGIC_SIZE_BYTES]
    end = _MAGIC_SIZE_BYTES + 2 + (8 if flags & _CONTENT_SIZE_BIT else 0) + (4 if flags & _DICTIONARY_BIT else 0)
    if len(fixed) > end:
        fixed[end] = (xxhash32_of_short(fixed[_MAGIC_SIZE_BYTES:end]) >> 8) & 0xFF
    return bytes(fixed)


def xxhash32_of_short(data: Buffer) -> int:
    """Return the xxHash32, with seed 0, of fewer than 16 bytes; longer input would take another path."""
    assert len(data) < 16, "a descriptor has at most 14 bytes"
    whole = len(data) - len(data) % 4
    hashed = (_PRIME_5 + len(data)) & _MASK
    for start in range(0, whole, 4):
        word = int.from_bytes(bytes(data[start : start + 4]), "little")
        hashed = (hashed + word * _PRIME_3) & _MASK
        hashed = (_rotate_left(hashed, 17) * _PRIME_4) & _MASK
    for byte in bytes(data[whole:]):
        hashed = (hashed + byte * _PRIME_5) & _MASK
        hashed = (_rotate_left(hashed, 11) * _PRIME_1) & _MASK
    hashed ^= hashed >> 15
    hashed = (hashed * _PRIME_2) & _MASK
    hashed ^= hashed >> 13
    hashed = (hashed * _PRIME_3) & _MASK
    return hashed ^ (hashed >> 16)


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
