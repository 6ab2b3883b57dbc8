"""Find the largest of many timestamp deltas at the speed of C.

A batch's header has its newest timestamp. Readers and retention rely on it, so a leader compares it with the records.
The deltas of records of one layout are in columns: byte n of each varint. Most headers are right, which one pass over
the columns confirms; the largest delta is searched only for a wrong header.

Varints have their lowest seven bits first and, by zigzag, the sign in bit 0: negative deltas are odd.
"""

import sys
from typing import Final

_ODD: Final = bytes(range(1, 256, 2))
_UP_TO: Final = tuple(bytes(byte for byte in range(128) if byte & 1 or byte <= most) for most in range(0, 128, 2))
"""By delta, 0 to 63: the one-byte varints that stand for it or less."""


def find_newest_delta(columns: list[bytes], expected: int) -> int:
    """Return the largest number in ``columns``, the bytes of varints of one length, lowest first; at least one each.

    It is quickest if the largest is ``expected``.
    """
    first = columns[0]
    if len(columns) == 1:
        if 0 <= expected < len(_UP_TO) and 2 * expected in first and not first.translate(None, _UP_TO[expected]):
            return expected
        later = first.translate(None, _ODD)
        return max(later) >> 1 if later else -(min(first) + 1 >> 1)
    if len(first.translate(None, _ODD)) == len(first):
        if len(columns) == 2:
            return _largest_of_two(*columns)
        # The most significant byte first: tuples compare like the numbers.
        return _decode(max(zip(*reversed(columns), strict=True))[::-1])
    return max(map(_decode, zip(*columns, strict=True)))


def _largest_of_two(low: bytes, high: bytes) -> int:
    """Return the largest of numbers that are not negative, as one comparison of 16 bits each."""
    pairs = bytearray(2 * len(low))
    pairs[::2], pairs[1::2] = low, high
    if sys.byteorder == "big":
        pairs[::2], pairs[1::2] = high, low
    largest = max(memoryview(pairs).cast("H"))
    return (largest & 0x7F | largest >> 8 << 7) >> 1


def _decode(number: tuple[int, ...]) -> int:
    raw = 0
    for shift, byte in enumerate(number):
        raw |= (byte & 0x7F) << 7 * shift
    return (raw >> 1) ^ -(raw & 1)
