"""The form of all batches with as many records and bytes as an earlier one, if their records have one layout.

A producer under load fills batch after batch with records of one size. All of them then have the same bytes at the
same positions, except for attributes, timestamps, keys and values; so the slices that take these bytes from a batch
are created once, with their expected contents. Comparing a batch with them takes two microseconds, and a match proves
that its records are valid.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Final, NamedTuple

from ottla.errors import InvalidRecordError
from ottla.wire.records.newest_delta import find_newest_delta
from ottla.wire.records.record_layout import RecordLayout, count_rows_left, offset_delta_columns, read_layout

RECORD_COUNT_MIN: Final = 6
"""Walking fewer records is quicker."""
_RECORD_COUNT_MAX: Final = 1024
"""The expected bytes of a form are about ten for each record."""
_FORMS_MAX: Final = 64
_RECORD_SIZE_BYTES_MIN: Final = 7
_LATER_BYTES_MAX: Final = 4
"""The records behind the 64th may be so many bytes larger, because their offset and timestamp deltas are."""
_TOP_BIT_FLIPPED: Final = bytes(byte ^ 0x80 for byte in range(256))


class BatchForm(NamedTuple):
    """Columns of a batch with a certain number of bytes and records: ``take`` returns them all.

    The first must equal ``expected``; then, up to ``last_end``, follow those with the last bytes of timestamp deltas,
    and then those with the bytes before them.
    """

    take: Callable[[bytes], tuple[bytes, ...]]
    expected: tuple[bytes, ...]
    last_end: int
    timestamps: tuple[tuple[int, ...], ...]
    """The columns of timestamp deltas of one length, lowest byte first."""

    def newest_delta(self, data: bytes, expected_delta: int) -> int | None:
        """Return the largest timestamp delta in ``data``, which has as many bytes and records as the form.

        None if they are not valid records of its layout.
        """
        columns = self.take(data)
        end = len(self.expected)
        if columns[:end] != self.expected or not b"".join(columns[end : self.last_end]).isascii():
            return None
        continued = columns[self.last_end :]
        if continued and not b"".join(continued).translate(_TOP_BIT_FLIPPED).isascii():
            return None
        return max(find_newest_delta([columns[at] for at in places], expected_delta) for places in self.timestamps)


class BatchForms:
    """The forms of recent batches."""

    __slots__ = ("_forms",)

    def __init__(self) -> None:
        self._forms: dict[tuple[int, int], BatchForm] = {}

    def __len__(self) -> int:
        return len(self._forms)

    def fit(self, data: bytes, record_count: int, expected_delta: int) -> int | None:
        """Return the largest timestamp delta if ``data`` is valid records of one layout, and cache their form."""
        if not RECORD_COUNT_MIN <= record_count <= _RECORD_COUNT_MAX or not _may_be_equal(data, record_count):
            return None
        place = len(data), record_count
        known = self._forms.get(place)
        if known is not None and (found := known.newest_delta(data, expected_delta)) is not None:
            return found
        try:
            made = make_form(data, record_count)
        except (IndexError, InvalidRecordError):  # the records differ in size, or are invalid
            return None
        if made is None or (found := made.newest_delta(data, expected_delta)) is None:
            return None
        if known is None and len(self._forms) >= _FORMS_MAX:
            del self._forms[next(iter(self._forms))]
        self._forms[place] = made
        return found


def _may_be_equal(data: bytes, record_count: int) -> bool:
    """Whether the records may all have the size of the first: a quick check that saves a long one."""
    if len(data) < record_count * _RECORD_SIZE_BYTES_MIN:
        return False
    first, second = data[0], data[1]
    if first < 0x80:
        step = 1 + (first >> 1)
    elif second < 0x80:
        step = (second << 6) + (first >> 1) - 62
    else:
        return True
    return step * record_count <= len(data) <= (step + _LATER_BYTES_MAX) * record_count


def make_form(data: bytes, record_count: int) -> BatchForm | None:
    """Return the form of ``data`` if all its records have the sizes of the first; None if they cannot.

    Raises:
        IndexError, InvalidRecordError: as `read_layout`.
    """
    tables: list[tuple[int, int, int, RecordLayout]] = []
    position = index = 0
    while index < record_count:
        layout = read_layout(data, position, index)
        if layout is None:
            return None
        rows = count_rows_left(index, record_count)
        tables.append((position, index, rows, layout))
        position += rows * layout.size_bytes
        index += rows
    if position != len(data):
        return None
    fixed: list[tuple[slice, bytes]] = []
    last: list[slice] = []
    continued: list[slice] = []
    continued_counts: list[int] = []
    for position, index, rows, layout in tables:
        step = layout.size_bytes
        end = position + rows * step
        for at in (*layout.size, *layout.key_size, *layout.value_size, *layout.headers):
            fixed.append((slice(position + at, end, step), data[position + at : position + at + 1] * rows))
        for at, column in enumerate(offset_delta_columns(index, rows), layout.offset_delta):
            fixed.append((slice(position + at, end, step), column))
        first = position + layout.timestamp
        *more, one = (slice(at, end, step) for at in range(first, position + layout.offset_delta))
        continued += more
        continued_counts.append(len(more))
        last.append(one)
    slices = [*(places for places, _ in fixed), *last, *continued]
    last_end = len(fixed) + len(last)
    timestamps = []
    at = last_end
    for table, count in enumerate(continued_counts):
        timestamps.append((*range(at, at + count), len(fixed) + table))
        at += count
    return BatchForm(itemgetter(*slices), tuple(column for _, column in fixed), last_end, tuple(timestamps))
