"""Whether a producer's records are what its batch says, found mostly at the speed of C.

Reading every record of a batch in Python costs more than all else that a broker does with it. Most batches, however,
repeat one layout: the same fields with the same sizes, record after record, where only the offset delta grows by one.
Then byte n of every record is a column, and a column is checked by one slice and one comparison:

- `BatchForms`: batches like others before them, all of whose records have one size.
- `_count_equal`: records of one size. The columns are slices of the batch itself with the size as the step.
- `_count_similar`: records whose values differ in size, with keys and headers of one size. A loop follows the sizes and
  gathers the start of each record and the end of the one before; the columns are slices of what it gathered.
- `_walk`: the rest, a record at a time, with one- and two-byte numbers read in place.

All of them are exact where they say yes. Where none does, `validate_records` has the last word, and the words for it.
"""

from typing import Final

from ottla.errors import InvalidRecordError
from ottla.wire.records.alike_records import count_alike
from ottla.wire.records.batch_form import RECORD_COUNT_MIN, BatchForms
from ottla.wire.records.record import HEADERS_MAX, read_size, skip_headers, walk_record

_ROWS_FIRST: Final = 128
"""As many records are tried first; after every success four times as many, so that failures cost little."""
_ROWS_GROWTH: Final = 4
_ROWS_MAX: Final = 1024
_COLUMNS_MIN: Final = 40
"""Fewer records than that are walked sooner than their columns are found."""
_PATIENCE_MAX: Final = 256
"""As many records at most are walked between two tries; they get there in two steps."""
_TIMESTAMP_SIZE_BYTES_MAX: Final = 9
"""So many bytes cannot be beyond `_TIMESTAMP_DELTA_MAX`."""
_TIMESTAMP_DELTA_MAX: Final = 2**62

_forms: Final = BatchForms()
"""Shared by all partitions: producers of one application fill them all alike."""


def are_dense(data: bytes, record_count: int, *, headers_each_max: int = HEADERS_MAX) -> bool:
    """Whether ``data`` is exactly ``record_count`` sound records with offset deltas 0, 1, ...

    A record with more than ``headers_each_max`` headers is too unusual, except where `BatchForms` has the answer: it
    knows no more than a thousand records of eight headers.
    Sound is what `validate_records` accepts in a batch whose base timestamp is within 2^62 of 0. True is certain. False
    says that something is wrong, or too unusual to be judged here.
    """
    try:
        if record_count < RECORD_COUNT_MIN:
            return _walk(data, 0, 0, record_count, headers_each_max) == len(data)
        return _forms.fit(data, record_count) or _end_of_records(data, record_count, headers_each_max) == len(data)
    except (IndexError, InvalidRecordError):
        return False


def _end_of_records(data: bytes, record_count: int, headers_each_max: int) -> int:
    """Return where the last record ends, having checked all.

    Raises:
        IndexError, InvalidRecordError: one of them is not sound, or too unusual.
    """
    position = index = 0
    rows, patience = _ROWS_FIRST, 1
    while index < record_count:
        end_index = min(index + patience, record_count)
        if record_count - end_index < _COLUMNS_MIN:
            end_index = record_count
        position = _walk(data, position, index, end_index, headers_each_max)
        index = end_index
        if index < record_count:
            count, position = count_alike(data, position, index, record_count, rows, headers_each_max)
            index += count
            patience = 1 if count >= _COLUMNS_MIN else min(patience * 63, _PATIENCE_MAX)
            rows = min(rows * _ROWS_GROWTH, _ROWS_MAX) if count >= rows else _ROWS_FIRST
    return position


def _walk(data: bytes, position: int, index: int, end_index: int, headers_each_max: int) -> int:
    """Return where record ``end_index`` starts, having checked those from ``index`` on.

    Raises:
        IndexError, InvalidRecordError: one of them is not sound, or too unusual.
    """
    while True:
        position, index = _walk_plain(data, position, index, end_index, headers_each_max)
        if index == end_index:
            return position
        position = _walk_unusual(data, position, index, headers_each_max)
        index += 1


def _walk_plain(  # noqa: C901, PLR0912
    data: bytes, position: int, index: int, end_index: int, headers_each_max: int
) -> tuple[int, int]:
    """Walk sound records whose numbers have one or two bytes; return the place of the first other.

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
        is_wrong = number & 1 and number != 1
        # Without headers the record ends here.
        if is_wrong or (
            (data[position] or position + 1 != end) and skip_headers(data, position, end, headers_each_max) != end
        ):
            break
        position = end
    else:
        return position, end_index
    return start, delta


def _walk_unusual(data: bytes, position: int, index: int, headers_each_max: int) -> int:
    position, end = read_size(data, position)
    timestamp_delta_ms, offset_delta, _, position = walk_record(data, position, end, headers_each_max)
    if position != end or offset_delta != index or abs(timestamp_delta_ms) > _TIMESTAMP_DELTA_MAX:
        raise InvalidRecordError(f"record {index} is not sound, or too unusual")
    return end
