"""The layout of one record's bytes, and the bytes of the offset deltas of the records after it.

Records with the same layout are a table: byte n of each is a column, which one slice of the batch extracts and one
comparison checks. `batch_form` and `contiguous_records` do so.
"""

from typing import Final, NamedTuple

from ottla.wire.records.record import read_size
from ottla.wire.records.varint import ZIGZAG, encode_varint, read_varint

_HEADERS_MAX: Final = 8
"""More headers give more columns than are worth their cost."""
_TIMESTAMP_SIZE_BYTES_MAX: Final = 9
"""So many bytes cannot be a delta beyond 2^62."""

_ONE_BYTE_MAX: Final = 64
"""From this offset delta on, varints have two bytes or more."""
_BLOCK: Final = 8192
"""Within so many offset deltas only the first two bytes of the varint change."""
_FIRST: Final = bytes(delta << 1 for delta in range(64))
_LOW: Final = bytes(delta << 1 & 0x7F | 0x80 for delta in range(64)) * 128
_MIDDLE: Final = b"".join(bytes((number,)) * 64 for number in range(128))
_MIDDLE_CONTINUED: Final = bytes(number | 0x80 for number in _MIDDLE)


class RecordLayout(NamedTuple):
    """The positions of one record's numbers, relative to its start."""

    size_bytes: int
    """Including the size field itself."""
    timestamp: int
    """The start of the timestamp delta; it ends at the start of the offset delta."""
    offset_delta: int
    size: tuple[int, ...]
    """The positions of the bytes of the record's size."""
    key_size: tuple[int, ...]
    value_size: tuple[int, ...]
    header_count: int
    headers: tuple[int, ...]
    """The positions of the bytes of the number of headers, and of the sizes of their keys and values."""


def read_layout(data: bytes, position: int, index: int) -> RecordLayout | None:
    """Return the layout of the record at ``position``, which is valid and has offset delta ``index``.

    None when it does not, or is too unusual for its columns to be worth their cost.

    Raises:
        IndexError: ``data`` ends within the record.
        InvalidRecordError: one of its numbers is invalid.
    """
    timestamp, end = read_size(data, position)
    size = _places(position, position, timestamp)
    timestamp += 1  # behind the attributes
    offset_delta = timestamp
    while data[offset_delta] >= 0x80:
        offset_delta += 1
    offset_delta += 1
    if offset_delta - timestamp > _TIMESTAMP_SIZE_BYTES_MAX:
        return None
    expected = encode_varint(index)
    at = offset_delta + len(expected)
    if data[offset_delta:at] != expected:
        return None
    key_size_bytes, at, key_size = _read_number(data, at, position)
    value_size_bytes, at, value_size = _read_number(data, at + max(key_size_bytes, 0), position)
    header_count, at, headers = _read_number(data, at + max(value_size_bytes, 0), position)
    if not 0 <= header_count <= _HEADERS_MAX or key_size_bytes < -1 or value_size_bytes < -1:
        return None
    for number in range(2 * header_count):
        size_bytes, at, places = _read_number(data, at, position)
        if size_bytes < -(number % 2):  # a header must have a key, its value may be null (-1)
            return None
        at += max(size_bytes, 0)
        headers += places
    if at != end:
        return None
    return RecordLayout(
        end - position, timestamp - position, offset_delta - position, size, key_size, value_size, header_count, headers
    )


def _read_number(data: bytes, at: int, start: int) -> tuple[int, int, tuple[int, ...]]:
    """Return a 32-bit number, its end, and the positions of its bytes relative to ``start``."""
    byte = data[at]
    if byte < 0x80:
        return ZIGZAG[byte], at + 1, (at - start,)
    number, end = read_varint(data, at)
    return number, end, _places(start, at, end)


def _places(start: int, first: int, end: int) -> tuple[int, ...]:
    return tuple(range(first - start, end - start))


def count_rows_left(index: int, record_count: int) -> int:
    """Return how many records from ``index`` on have offset deltas that differ in the same bytes only."""
    end = _ONE_BYTE_MAX if index < _ONE_BYTE_MAX else index - index % _BLOCK + _BLOCK
    return min(end, record_count) - index


def offset_delta_columns(index: int, count: int) -> list[bytes]:
    """Return the bytes of ``count`` (see `count_rows_left`) offset deltas from ``index`` on, a column for each."""
    if index < _ONE_BYTE_MAX:
        return [_FIRST[index : index + count]]
    first = index % _BLOCK
    columns = [_LOW[first : first + count]]
    if index < _BLOCK:
        return [*columns, _MIDDLE[first : first + count]]
    columns.append(_MIDDLE_CONTINUED[first : first + count])
    return columns + [bytes((byte,)) * count for byte in encode_varint(index)[2:]]
