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

_ALIKE_MIN: Final = 8
"""So many neighbours must be alike for their columns to pay."""
_ROWS_FIRST: Final = 128
"""As many records are tried first; after every success four times as many, so that failures cost little."""
_SIMILAR_MIN: Final = 96
"""Fewer records whose sizes differ are walked sooner than they are gathered."""
_ROWS_GROWTH: Final = 4
_GATHERED_ROWS_MAX: Final = 1024
"""More heads than that leave the processor's cache, and the memory that is at hand: the loop takes twice as long."""
_EQUAL_ROWS_FACTOR: Final = 16
"""Rows that need no loop cost so much less that more of them are risked."""
_COLUMNS_MIN: Final = 32
"""Fewer records than that are walked sooner than their columns are found."""
_PATIENCE_MAX: Final = 256
"""As many records at most are walked between two tries; they get there in two steps."""
_HEADERS_MAX: Final = 8
_PREFIX_SIZE_BYTES_MAX: Final = 64
_TIMESTAMP_SIZE_BYTES_MAX: Final = 9
"""So many bytes cannot be beyond `_TIMESTAMP_DELTA_MAX`."""
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
    says that something is wrong, or too unusual to be judged here.
    """
    position = index = 0
    rows, patience = _ROWS_FIRST, 1
    try:
        while index < record_count:
            end_index = min(index + patience, record_count)
            if record_count - end_index < _COLUMNS_MIN:
                end_index = record_count
            position = _walk(data, position, index, end_index)
            index = end_index
            if index < record_count:
                count, position = _count_alike(data, position, index, _rows_left(index, record_count), rows)
                index += count
                patience = 1 if count >= _COLUMNS_MIN else min(patience * 16, _PATIENCE_MAX)
                rows = min(rows * _ROWS_GROWTH, _GATHERED_ROWS_MAX) if count >= rows else _ROWS_FIRST
    except (IndexError, InvalidRecordError):
        return False
    return position == len(data)


def _rows_left(index: int, record_count: int) -> int:
    """Return how many records follow whose offset deltas change in the same two bytes."""
    end = _ONE_BYTE_MAX if index < _ONE_BYTE_MAX else index - index % _BLOCK + _BLOCK
    return min(end, record_count) - index


# --- one at a time


def _walk(data: bytes, position: int, index: int, end_index: int) -> int:
    """Return where record ``end_index`` starts, having checked those from ``index`` on.

    Raises:
        IndexError, InvalidRecordError: one of them is not sound, or too unusual.
    """
    while True:
        position, index = _walk_plain(data, position, index, end_index)
        if index == end_index:
            return position
        position = _walk_unusual(data, position, index)
        index += 1


def _walk_plain(data: bytes, position: int, index: int, end_index: int) -> tuple[int, int]:  # noqa: C901, PLR0912
    """Walk sound records without headers whose numbers have one or two bytes; return the place of the first other.

    One long function, because a call for each number would cost more than all of them.
    """
    for delta in range(index, end_index):
        start = position
        number, more = data[position], data[position + 1]
        if number & 1:
            break
        if number < 0x80:
            end = position + 1 + (number >> 1)
            position += 2
        else:
            end = position - 62 + (more << 6) + (number >> 1)
            position += 3
            if more >= 0x80:
                break
        if data[position] < 0x80:
            position += 1
        else:
            first = position
            position += 2
            while data[position - 1] >= 0x80:
                position += 1
            if position - first > _TIMESTAMP_SIZE_BYTES_MAX:
                break
        number, more = data[position], data[position + 1]
        if number >= 0x80:
            number += (more << 7) - 0x80
            position += 1
            if more >= 0x80:
                break
        if number != delta << 1:
            break
        # The key: null is size -1, which zigzag makes 1; a key of 64 bytes or more is unusual.
        number = data[position + 1]
        position += 2
        if number != 1:
            if number & 0x81:
                break
            position += number >> 1
        number, more = data[position], data[position + 1]
        if number < 0x80:
            position += 1 + (number >> 1)
        else:
            position += (more << 6) + (number >> 1) - 62
            if more >= 0x80:
                break
        if (number & 1 and number != 1) or data[position] or position + 1 != end:
            break
        position = end
    else:
        return position, end_index
    return start, delta


def _walk_unusual(data: bytes, position: int, index: int) -> int:
    position, end = read_size(data, position)
    timestamp_delta_ms, offset_delta, _, position = walk_record(data, position, end)
    if position != end or offset_delta != index or abs(timestamp_delta_ms) > _TIMESTAMP_DELTA_MAX:
        raise InvalidRecordError(f"record {index} is not sound, or too unusual")
    return end


# --- many at once


def _count_alike(data: bytes, position: int, index: int, left: int, rows: int) -> tuple[int, int]:
    """Return how many of the ``left`` records from ``index`` on are sound and alike, and where the next one starts.

    ``rows`` says how many to try where trying costs a loop.
    """
    layout = _read_layout(data, position, index)
    if layout is None:
        return 0, position
    step = layout.size_bytes
    if data[position : position + _ALIKE_MIN * step : step] != data[position : position + 1] * _ALIKE_MIN:
        if left < _SIMILAR_MIN:
            return 0, position
        return _count_similar(data, position, index, min(left, rows), layout)
    count = min(left, rows * _EQUAL_ROWS_FACTOR, (len(data) - position) // step)
    count = _count_equal(data, position, index, count, layout)
    return count, position + count * step


def _read_layout(data: bytes, position: int, index: int) -> _Layout | None:
    """Return the layout of the record at ``position``; None when it is not sound, or nothing for columns."""
    end = _walk_unusual(data, position, index)
    spans: list[tuple[int, int]] = []
    at = position

    def read() -> tuple[int, int]:
        nonlocal at
        first = at
        while data[at] >= 0x80:
            at += 1
        at += 1
        spans.append((first - position, at - position))
        return first, at

    read()
    at += 1  # attributes
    timestamp = read()
    delta = read()
    for _ in range(2):
        first, _ = read()
        at += max(_number(data, first), 0)
    first, _ = read()
    for _ in range(2 * _number(data, first)):
        first, _ = read()
        at += max(_number(data, first), 0)
    if data[delta[0] : delta[1]] != encode_varint(index):
        return None
    if timestamp[1] - timestamp[0] > _TIMESTAMP_SIZE_BYTES_MAX or len(spans) > 6 + 2 * _HEADERS_MAX:
        return None
    return _Layout(end - position, spans[1], spans[2], (spans[0], *spans[3:]))


def _number(data: bytes, position: int) -> int:
    byte = data[position]
    return ZIGZAG[byte] if byte < 0x80 else read_varint(data, position)[0]


def _varint_checks(span: tuple[int, int]) -> list[_Check]:
    """Return the columns of a number that may have any value of its length."""
    return [*((at, _CONTINUED) for at in range(span[0], span[1] - 1)), (span[1] - 1, _LAST)]


def _size_checks(span: tuple[int, int]) -> list[_Check]:
    """Return the columns of a number of one or two bytes that is not negative."""
    if span[1] - span[0] == 1:
        return [(span[0], _EVEN_LAST)]
    return [(span[0], _EVEN_CONTINUED), (span[0] + 1, _LAST)]


def _count_equal(data: bytes, position: int, index: int, count: int, layout: _Layout) -> int:
    """Return how many of ``count`` records from ``index`` on have the sizes of the first."""
    checks = _varint_checks(layout.timestamp)
    for span in layout.sizes:
        checks += [(at, data[position + at : position + at + 1]) for at in range(*span)]
    return _count_rows(data, position, layout.size_bytes, count, checks, index, layout.offset_delta[0])


def _count_similar(data: bytes, position: int, index: int, count: int, layout: _Layout) -> tuple[int, int]:
    """Return how many of ``count`` records from ``index`` on differ in their values only, and where the next starts."""
    size, key_size, value_size, *headers = layout.sizes
    prefix = value_size[1]
    if len(headers) != 1 or size[1] > 2 or value_size[1] - value_size[0] > 2 or prefix > _PREFIX_SIZE_BYTES_MAX:
        return 0, position
    checks = [
        *_size_checks(size),
        *_varint_checks(layout.timestamp),
        *((at, data[position + at : position + at + 1]) for at in range(*key_size)),
        *_size_checks(value_size),
    ]
    wide = size[1] == 2
    try:
        heads, end = _gather(data, position, count, prefix, wide=wide)
    except IndexError:  # led astray by the first number of another length
        return 0, position
    rows = b"".join(heads)
    stride = prefix + 1
    if len(rows) != count * stride:
        return 0, position
    sound = _count_rows(rows, 1, stride, count, checks, index, layout.offset_delta[0])
    # A record ends with its header count; the byte stands at the start of the next one's row.
    tails = rows[stride::stride] + data[end - 1 : end]
    sound = min(sound, _count_allowed(tails, b"\0"))
    if not sound or not _sizes_agree(rows, stride, sound, size, value_size):
        return 0, position
    if sound < count:
        end = position + _sum_sizes(rows, stride, sound, wide=wide)
    return sound, end


def _gather(data: bytes, position: int, count: int, prefix: int, *, wide: bool) -> tuple[list[bytes], int]:
    """Follow the sizes of ``count`` records; return of each the byte before it and ``prefix`` bytes, and the end."""
    heads: list[bytes] = []
    append = heads.append
    if wide:
        for _ in range(count):
            head = data[position - 1 : position + prefix]
            append(head)
            position += (head[2] << 6) + (head[1] >> 1) - 62
    else:
        for _ in range(count):
            head = data[position - 1 : position + prefix]
            append(head)
            position += (head[1] >> 1) + 1
    return heads, position


def _sum_sizes(rows: bytes, stride: int, count: int, *, wide: bool) -> int:
    """Return how many bytes the first ``count`` gathered records have, as `_gather` counts."""
    end = count * stride
    if wide:
        return (sum(rows[2:end:stride]) << 6) + sum(byte >> 1 for byte in rows[1:end:stride]) - 62 * count
    return (sum(rows[1:end:stride]) >> 1) + count


def _sizes_agree(rows: bytes, stride: int, count: int, size: tuple[int, int], value_size: tuple[int, int]) -> bool:
    """Whether each record is as much larger than its value as its other fields need.

    All are compared at once: as numbers of 16 bits side by side in one large integer.
    """
    # After the size come the fields up to the value, and after the value the header count.
    others = value_size[1] - size[1] + 1
    ones = int.from_bytes(b"\1\0" * count, "little")
    return _lanes(rows, stride, count, size, ones) == _lanes(rows, stride, count, value_size, ones) + 2 * others * ones


def _lanes(rows: bytes, stride: int, count: int, span: tuple[int, int], ones: int) -> int:
    """Return the raw varints of a column, below 2^14 each, in lanes of 16 bits."""
    lanes = bytearray(2 * count)
    first = span[0] + 1
    lanes[::2] = rows[first : first + (count - 1) * stride + 1 : stride]
    low = int.from_bytes(lanes, "little")
    if span[1] - span[0] == 1:
        return low
    first += 1
    lanes[::2] = rows[first : first + (count - 1) * stride + 1 : stride]
    return low + (int.from_bytes(lanes, "little") << 7) - (ones << 7)


def _count_rows(
    rows: bytes, start: int, stride: int, count: int, checks: list[_Check], index: int, delta_position: int
) -> int:
    """Return how many of ``count`` rows pass the checks and have the offset deltas from ``index`` on."""
    for at, allowed in checks:
        first = start + at
        count = _count_allowed(rows[first : first + (count - 1) * stride + 1 : stride], allowed)
        if not count:
            return 0
    first = start + delta_position
    for expected in _delta_columns(index, count):
        if rows[first : first + (count - 1) * stride + 1 : stride] != expected:
            return 0
        first += 1
    return count


def _count_allowed(column: bytes, allowed: bytes) -> int:
    """Return how many bytes from the first on are allowed."""
    if not column.translate(None, allowed):
        return len(column)
    return len(column) - len(column.lstrip(allowed))


def _delta_columns(index: int, count: int) -> list[bytes]:
    """Return the bytes that ``count`` (see `_rows_left`) offset deltas have from ``index`` on, a column for each."""
    if index < _ONE_BYTE_MAX:
        return [_FIRST[index : index + count]]
    first = index % _BLOCK
    columns = [_LOW[first : first + count]]
    if index < _BLOCK:
        return [*columns, _MIDDLE[first : first + count]]
    columns.append(_MIDDLE_CONTINUED[first : first + count])
    return columns + [encode_varint(index)[at : at + 1] * count for at in range(2, len(encode_varint(index)))]
