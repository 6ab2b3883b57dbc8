"""Count the records that have the layout of a first one, by columns, and find the newest of them.

`count_uniform` takes the columns of records of one size from the batch itself, with the size as the step. If only the
values differ in size, it follows the sizes, gathers the start of each record with the end of the previous one, and
takes the columns from those.
"""

from typing import Final, NamedTuple

from ottla.wire.records.newest_delta import find_newest_delta
from ottla.wire.records.record_layout import RecordLayout, count_rows_left, offset_delta_columns, read_layout

_UNIFORM_MIN: Final = 8
"""Columns are worth their cost from so many adjacent records of one size on."""
_SIMILAR_MIN: Final = 40
"""Walking fewer records of different sizes is quicker than gathering them."""
_EQUAL_ROWS_FACTOR: Final = 16
"""Rows without a loop cost so much less that more of them are tried."""
_PREFIX_SIZE_BYTES_MAX: Final = 128
_SUFFIX_SIZE_BYTES_MAX: Final = 256

_WRONG: Final = 0x80
_LAST: Final = bytes(byte & 0x80 for byte in range(256))
"""Translation tables: 0 for an allowed byte, `_WRONG` for any other."""
_CONTINUED: Final = bytes(~byte & 0x80 for byte in range(256))
_EVEN_LAST: Final = bytes(_WRONG if byte & 0x81 else 0 for byte in range(256))
_EVEN_CONTINUED: Final = bytes(0 if byte & 0x81 == 0x80 else _WRONG for byte in range(256))
"""The allowed first bytes of a number that is not negative: zigzag has the sign in bit 0."""


NONE_UNIFORM_DELTA: Final = -(2**63)
"""Below every timestamp delta: the newest of no records."""


class UniformRun(NamedTuple):
    """A run of valid records of one layout; if ``record_count`` is 0, ``end`` is the position of the first record."""

    record_count: int
    end: int
    """The position of the next record."""
    newest_delta: int
    headers_each: int


def count_uniform(
    data: bytes, position: int, index: int, record_count: int, rows: int, headers_each_max: int, expected: int
) -> UniformRun:
    """Return how many records from ``index`` on are valid and of one layout.

    There are ``record_count`` in all, and record ``index``, which starts at ``position``, is not the first. ``rows``
    limits the records to try if they need a loop; ``expected`` is the newest timestamp delta of all according to the
    batch's header, which is quick to confirm. The last record may end behind ``data``. Records that may have more than
    ``headers_each_max`` headers are not counted.

    Raises:
        IndexError, InvalidRecordError: record ``index`` is invalid, or ends after ``data`` does.
    """
    layout = read_layout(data, position, index)
    if layout is None or layout.header_count > headers_each_max:
        return UniformRun(0, position, NONE_UNIFORM_DELTA, 0)
    step, left = layout.size_bytes, count_rows_left(index, record_count)
    if data[position : position + _UNIFORM_MIN * step : step] != data[position : position + 1] * _UNIFORM_MIN:
        if left < _SIMILAR_MIN or not _may_be_similar(data, position, layout):
            return UniformRun(0, position, NONE_UNIFORM_DELTA, 0)
        return _count_similar(data, position, index, min(left, rows), layout, expected)
    count = min(left, rows * _EQUAL_ROWS_FACTOR, (len(data) - position) // step)
    count = _count_equal(data, position, index, count, layout)
    newest = _newest(data, position, step, count, layout, expected)
    return UniformRun(count, position + count * step, newest, layout.header_count)


def _newest(rows: bytes, start: int, step: int, count: int, layout: RecordLayout, expected: int) -> int:
    """Return the newest timestamp delta of ``count`` rows, whose numbers have one length."""
    if not count:
        return NONE_UNIFORM_DELTA
    places = range(start + layout.timestamp, start + layout.offset_delta)
    return find_newest_delta([_column(rows, at, step, count) for at in places], expected)


def _count_equal(data: bytes, position: int, index: int, count: int, layout: RecordLayout) -> int:
    """Return how many of ``count`` records from ``index`` on have the sizes of the first."""
    step = layout.size_bytes
    for at in (*layout.size, *layout.key_size, *layout.value_size, *layout.headers):
        count = _count_same(_column(data, position + at, step, count))
    return _count_numbered(data, position, step, count, index, layout)


def _count_numbered(rows: bytes, start: int, step: int, count: int, index: int, layout: RecordLayout) -> int:
    """Return how many of ``count`` rows have timestamp deltas of one length; 0 if not all have their offset deltas."""
    for at in range(layout.timestamp, layout.offset_delta):
        table = _LAST if at == layout.offset_delta - 1 else _CONTINUED
        count = _count_right(_column(rows, start + at, step, count), table)
    for at, expected in enumerate(offset_delta_columns(index, count), start + layout.offset_delta):
        if _column(rows, at, step, count) != expected:
            return 0
    return count


def _column(rows: bytes, first: int, step: int, count: int) -> bytes:
    return rows[first : first + (count - 1) * step + 1 : step] if count else b""


def _count_same(column: bytes) -> int:
    """Return how many bytes from the first on equal it."""
    first = column[:1]
    return len(column) if column == first * len(column) else len(column) - len(column.lstrip(first))


def _count_right(column: bytes, table: bytes) -> int:
    """Return how many bytes from the first on ``table`` translates to 0."""
    marks = column.translate(table)
    return len(marks) if marks.isascii() else len(marks) - len(marks.lstrip(b"\0"))


def _count_similar(
    data: bytes, position: int, index: int, count: int, layout: RecordLayout, expected: int
) -> UniformRun:
    """Return the result of `count_uniform` for ``count`` records from ``index`` on that differ in their values only."""
    prefix = layout.value_size[-1] + 1
    suffix = layout.size_bytes - layout.headers[0]
    is_usual = prefix <= _PREFIX_SIZE_BYTES_MAX and suffix <= min(position, _SUFFIX_SIZE_BYTES_MAX)
    empty = UniformRun(0, position, NONE_UNIFORM_DELTA, 0)
    if not is_usual or len(layout.size) > 2 or len(layout.value_size) > 2:
        return empty
    step, wide = suffix + prefix, len(layout.size) == 2
    try:
        heads, end = _gather(data, position - suffix, count, suffix, step, wide=wide)
    except IndexError:  # a number of another length shifted the columns
        return empty
    rows = b"".join(heads)
    if len(rows) != count * step:
        return empty
    # The end of a record is at the start of the next one's row.
    rows += data[end : end + suffix]
    valid = _count_valid(rows, step, suffix, count, layout)
    valid = _count_numbered(rows, suffix, step, valid, index, layout)
    if not valid or not _sizes_agree(rows, step, suffix, valid, layout):
        return empty
    if valid < count:
        end = position - suffix + _sum_sizes(rows, suffix, step, valid, wide=wide)
    return UniformRun(valid, end + suffix, _newest(rows, suffix, step, valid, layout, expected), layout.header_count)


def _may_be_similar(data: bytes, position: int, layout: RecordLayout) -> bool:
    """Whether the next records seem to have sizes and keys of as many bytes: a check that saves a loop."""
    wide = len(layout.size) > 1
    start, end = layout.key_size[0], layout.key_size[-1] + 1
    key_size = data[position + start : position + end]
    for _ in range(_UNIFORM_MIN):
        first = data[position]
        if (first >= 0x80) is not wide or data[position + start : position + end] != key_size:
            return False
        position += (data[position + 1] << 6) + (first >> 1) - 62 if wide else (first >> 1) + 1
    return True


def _count_valid(rows: bytes, step: int, suffix: int, count: int, layout: RecordLayout) -> int:
    """Return how many of ``count`` gathered records have the keys and headers of the first, and sizes of its length."""
    for at in layout.headers:
        count = _count_same(_column(rows, step + at - layout.headers[0], step, count))
    for at in layout.key_size:
        count = _count_same(_column(rows, suffix + at, step, count))
    for places in (layout.size, layout.value_size):
        tables = (_EVEN_CONTINUED, _LAST) if len(places) == 2 else (_EVEN_LAST,)
        for at, table in zip(places, tables, strict=True):
            count = _count_right(_column(rows, suffix + at, step, count), table)
    return count


def _gather(data: bytes, start: int, count: int, suffix: int, step: int, *, wide: bool) -> tuple[list[bytes], int]:
    """Follow the sizes of ``count`` records; return ``step`` bytes from ``suffix`` before each on, and the last end.

    Like ``start``, that end is ``suffix`` bytes before a record.
    """
    heads: list[bytes] = []
    append = heads.append
    if wide:
        second = suffix + 1
        for _ in range(count):
            head = data[start : start + step]
            append(head)
            start += (head[second] << 6) + (head[suffix] >> 1) - 62
    else:
        for _ in range(count):
            head = data[start : start + step]
            append(head)
            start += (head[suffix] >> 1) + 1
    return heads, start


def _sum_sizes(rows: bytes, first: int, step: int, count: int, *, wide: bool) -> int:
    """Return how many bytes the first ``count`` gathered records have, as `_gather` counts."""
    low = sum(byte >> 1 for byte in _column(rows, first, step, count))
    if wide:
        return (sum(_column(rows, first + 1, step, count)) << 6) + low - 62 * count
    return low + count


def _sizes_agree(rows: bytes, step: int, suffix: int, count: int, layout: RecordLayout) -> bool:
    """Whether each record's size is that of its value plus its other fields.

    All are compared at once, as numbers of 16 bits packed into one large integer.
    """
    # After the size come the fields up to the value, and after the value the headers.
    others = layout.value_size[-1] - layout.size[-1] + suffix
    ones = int.from_bytes(b"\1\0" * count, "little")
    sizes = _pack_16_bit(rows, step, suffix, count, layout.size, ones)
    return sizes == _pack_16_bit(rows, step, suffix, count, layout.value_size, ones) + 2 * others * ones


def _pack_16_bit(rows: bytes, step: int, suffix: int, count: int, places: tuple[int, ...], ones: int) -> int:
    """Return the raw varints of a column, below 2^14 each, packed into fields of 16 bits."""
    fields = bytearray(2 * count)
    fields[::2] = _column(rows, suffix + places[0], step, count)
    low = int.from_bytes(fields, "little")
    if len(places) == 1:
        return low
    fields[::2] = _column(rows, suffix + places[1], step, count)
    return low + (int.from_bytes(fields, "little") << 7) - (ones << 7)
