"""Check that a producer's records are valid and contiguous, mostly at the speed of C.

Reading every record of a batch in Python costs more than everything else that a broker does with it. Most batches,
however, repeat one layout: the same fields with the same sizes, record after record, with an offset delta that grows
by one. Then byte n of every record is a column, and a column is checked by one slice and one comparison:

- `BatchForms`: batches like earlier ones, all of whose records have one size.
- `_count_equal`: records of one size. The columns are slices of the batch itself with the size as the step.
- `_count_similar`: records whose values differ in size, with keys and headers of one size. A loop follows the sizes and
  gathers the start of each record and the end of the previous one; the columns are slices of the gathered bytes.
- `walk_plain`: the others, a record at a time, with one- and two-byte numbers read in place.

All of them accept only valid records. `RecordsWalk` combines them for records that arrive in pieces; `validate_records`
would reject every record that it rejects.
"""

from typing import Final

from ottla.errors import InvalidRecordError
from ottla.wire.records.batch_form import RECORD_COUNT_MIN, BatchForms
from ottla.wire.records.record import HEADERS_MAX
from ottla.wire.records.records_walk import RecordsWalk, walk_plain

__all__ = ["are_contiguous", "find_newest_timestamp_delta"]

_DELTA_MAX: Final = 2**62

_forms: Final = BatchForms()
"""Shared by all partitions: producers of one application fill them with the same form."""


def are_contiguous(data: bytes, record_count: int, *, headers_each_max: int = HEADERS_MAX) -> bool:
    """Whether ``data`` is exactly ``record_count`` valid records with offset deltas 0, 1, ...

    See `find_newest_timestamp_delta`.
    """
    return find_newest_timestamp_delta(data, record_count, headers_each_max=headers_each_max) is not None


def find_newest_timestamp_delta(
    data: bytes, record_count: int, *, expected: int = 0, headers_each_max: int = HEADERS_MAX
) -> int | None:
    """Return the largest timestamp delta, if ``data`` is exactly ``record_count`` valid, contiguous records.

    Args:
        data: the records of a batch, decompressed.
        record_count: > 0. The offset deltas must be 0, 1, ...
        expected: the result according to the header, which is quick to confirm.
        headers_each_max: a record with more headers is too unusual, unless `BatchForms` has its form: those have at
            most a thousand records of eight headers.

    Returns:
        None if a record is invalid, or too unusual for this check. Valid records are those that `validate_records`
        accepts in a batch whose base timestamp is within 2^62 of 0.
    """
    try:
        if record_count < RECORD_COUNT_MIN:
            end, index, newest, _ = walk_plain(data, 0, 0, record_count, headers_each_max)
            if index == record_count:
                return newest if end == len(data) else None
        elif (found := _forms.fit(data, record_count, expected)) is not None:
            return found
        walk = RecordsWalk(record_count, expected_delta=expected, headers_each_max=headers_each_max)
        for _ in walk.feed(data):
            pass
        walk.finish()
    except (IndexError, InvalidRecordError):
        return None
    is_usual = walk.newest_delta <= _DELTA_MAX and walk.oldest_delta >= -_DELTA_MAX
    return walk.newest_delta if is_usual else None
