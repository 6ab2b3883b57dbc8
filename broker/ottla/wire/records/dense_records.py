"""Whether a producer's records are what its batch says, found mostly at the speed of C.

Reading every record of a batch in Python costs more than all else that a broker does with it. Most batches, however,
repeat one layout: the same fields with the same sizes, record after record, where only the offset delta grows by one.
Then byte n of every record is a column, and a column is checked by one slice and one comparison:

- `_count_equal`: records of one size. The columns are slices of the batch itself with the size as the step.
- `_count_similar`: records whose values differ in size, without headers, with keys of one size. A loop follows the
  sizes and gathers the start of each record; the columns are slices of what it gathered.
- `_walk`: the rest, a record at a time, with one- and two-byte numbers read in place.

All three are exact where they say yes. Where none does, `validate_records` has the last word, and the words for it.
"""

from typing import Final, NamedTuple, TypeAlias

from ottla.errors import InvalidRecordError
from ottla.wire.records.record import read_size, walk_record
from ottla.wire.records.varint import ZIGZAG, encode_varint, read_varint

ROWS_MIN: Final = 8
"""As many records are tried first; with every success eight times as many, so that failures cost little."""
_ROWS_GROWTH: Final = 8
_PATIENCE_MAX: Final = 256
_HEADERS_MAX: Final = 8
_PREFIX_SIZE_BYTES_MAX: Final = 64
_TIMESTAMP_SIZE_BYTES_MAX: Final = 5
_TIMESTAMP_DELTA_MAX: Final = 2**62

_ONE_BYTE_MAX: Final = 64
"""From this offset delta on, varints have two bytes or more."""
_BLOCK: Final = 8192
"""Within so many offset deltas only the first two bytes of the varint change."""
_FIRST: Final = bytes(delta << 1 for delta in range(64))
_LOW: Final = bytes(delta << 1 & 0x7F | 0x80 for delta in range(64)) * 128
_MIDDLE: Final = b"".join(bytes((number,)) * 64 for number in range(128))
_MIDDLE_CONTINUED: Final = bytes(number | 0x80 for number in _MIDDLE)

_LAST: Final = bytes(range(0x80))
_CONTINUED: Final = bytes(range(0x80, 0x100))
_EVEN_LAST: Final = _LAST[::2]
_EVEN_CONTINUED: Final = _CONTINUED[::2]
"""What the first byte of a number that is not negative may be: zigzag has the sign in bit 0."""

_Check: TypeAlias = tuple[int, bytes]
"""A column: where it is in its record, and which bytes may be in it."""


class _Layout(NamedTuple):
    """Where one record has its numbers, as positions from its start: (first byte, byte after the last)."""

    size_bytes: int
    timestamp: tuple[int, int]
    offset_delta: tuple[int, int]
    sizes: tuple[tuple[int, int], ...]
    """The record's own size, key size, value size, header count, and two sizes per header."""


def are_dense(data: bytes, record_count: int) -> bool:
    """Whether ``data`` is exactly ``record_count`` sound records with offset deltas 0, 1, ...

    Sound is what `validate_records` accepts in a batch whose base timestamp is within 2^62 of 0. True is certain. False
    says that something is wrong or too unusual to be judged here.
    """
    position = index = 0
    rows, patience = ROWS_MIN, 1
    try:
        while index < record_count:
            position = _walk(data, position, index, min(index + patience, record_count))
            if position < 0:
                return False
            index = min(index + patience, record_count)
            if record_count - index < ROWS_MIN:
                patience = record_count - index
                continue
            count, position = _count_alike(data, position, index, min(rows, _rows_left(index, record_count)))
            index += count
            patience = 1 if count else min(patience * 2, _PATIENCE_MAX)
            rows = rows * _ROWS_GROWTH if count >= min(rows, ROWS_MIN) else ROWS_MIN
    except (IndexError, InvalidRecordError):
        return False
    return position == len(data)


def _rows_left(index: int, record_count: int) -> int:
    """Return how many records follow whose offset deltas change in the same two bytes."""
    end = _ONE_BYTE_MAX if index < _ONE_BYTE_MAX else index - index % _BLOCK + _BLOCK
    return min(end, record_count) - index


def _walk(data: bytes, position: int, index: int, end_index: int) -> int:  # noqa: C901 - a call costs more than a field
    """Return where record ``end_index`` starts, having checked those from ``index`` on; -1 when one is not sound.

    Raises:
        IndexError, InvalidRecordError: likewise.
    """
    for delta in range(index, end_index):
        start = position
        size, more = data[position], data[position + 1]
        if size < 0x80:
            end, position = position + 1 + (size >> 1), position + 2
        elif more < 0x80:
            end, position = position + 2 + (more << 6) + ((size & 0x7F) >> 1), position + 3
        else:
            position = _walk_unusual(data, start, delta)
            continue
        position += 1 if data[position] < 0x80 else 2
        number, more = data[position], data[position + 1]
        if number >= 0x80:
            number += (more << 7) - 0x80
            position += 1
        if number != delta << 1 or data[position - 1] >= 0x80 > more:
            position = _walk_unusual(data, start, delta)
            continue
    return position


def _walk_unusual(data: bytes, position: int, index: int) -> int:
    position, end = read_size(data, position)
    timestamp_delta_ms, offset_delta, _, position = walk_record(data, position, end)
    if position != end or offset_delta != index or abs(timestamp_delta_ms) > _TIMESTAMP_DELTA_MAX:
        return -1
    return end
