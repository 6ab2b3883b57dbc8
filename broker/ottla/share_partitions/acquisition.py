"""`Acquirer`: acquires records that were read from the log for a member, for a limited time.

Records in flight that are available come first, then new ones. A record that has been delivered often is delivered with
few others, and on its last attempt alone: a member that fails at it then releases no healthy records with it.

Source: SharePartition.acquire, acquireSubsetBatchRecords, createBatches of Apache Kafka 4.3.1.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from ottla.share_partitions.acquisition_locks import NO_LOCK
from ottla.share_partitions.in_flight_batch import RECORDS_MAX, InFlightBatch
from ottla.share_partitions.in_flight_window import InFlightWindow
from ottla.share_partitions.record_state import (
    ACQUIRE,
    ACQUIRED,
    AVAILABLE,
    AVAILABLE_RUNS,
    STATE_MASK,
    available_from,
    cell,
    count_of,
)
from ottla.types import Offset

_BATCHES_MAX: Final = 256
"""Batches in flight that one call examines: 256 take half a millisecond."""
_RANGES_MAX: Final = 1_000
"""Ranges that one call acquires of batches whose records differ: as many take 2 ms."""
_SPLIT_RECORDS_MAX: Final = 65_536
"""Records with a state each that one call examines."""
_ALONE_ABOVE: Final = 2
"""With a limit of two deliveries no record is delivered alone."""


class LogBatch(NamedTuple):
    """A batch that was read from the log."""

    base_offset: Offset
    last_offset: Offset


class AcquiredRange(NamedTuple):
    """Records that a member has acquired."""

    first_offset: Offset
    last_offset: Offset
    delivery_count: int


@dataclass(slots=True, kw_only=True)
class Acquisition:
    """What a member may acquire; ``is_record_limit``: at most ``records_max``, although that splits batches."""

    member_id: str
    deadline_ms: int
    records_max: int
    batch_size: int
    in_flight_max: int
    delivery_count_limit: int
    is_record_limit: bool = False

    @property
    def throttled_from(self) -> int:
        """Return the delivery count from which records are delivered with few others."""
        return max(2, (self.delivery_count_limit + 1) // 2)


class Acquirer:
    """One acquisition from one window."""

    def __init__(self, window: InFlightWindow, wanted: Acquisition, batches: Sequence[LogBatch]) -> None:
        self._window = window
        self._wanted = wanted
        self._batches = batches
        self._acquired: list[AcquiredRange] = []
        self._count = 0
        self._split_records = 0

    def acquire(self, fetch_offset: Offset) -> list[AcquiredRange]:
        """Return what has been acquired, in order, of records that were read at ``fetch_offset``."""
        window, wanted, batches = self._window, self._wanted, self._batches
        if not batches or wanted.records_max <= 0 or batches[-1].last_offset < window.start_offset:
            return []
        last_offset = batches[-1].last_offset
        left = min(wanted.records_max, wanted.in_flight_max - window.in_flight_count)
        if left <= 0:
            if not len(window) or fetch_offset > window.end_offset:
                return []
            # No new records may be acquired, those in flight may.
            left = min(wanted.records_max, window.end_offset - fetch_offset + 1)
            last_offset = min(last_offset, window.end_offset)
        base_offset = max(batches[0].base_offset, window.start_offset)
        if fetch_offset < base_offset:
            window.archive_missing(fetch_offset, base_offset - 1)
        self._acquire_in_flight(base_offset, last_offset, left)
        return self._acquired

    def _acquire_in_flight(self, base_offset: Offset, last_offset: Offset, left: int) -> None:
        window = self._window
        expected = base_offset
        # Acquired records become batches of the window: take the list of those that are there now.
        batches = chain.from_iterable(map(window.divide, window.overlapping(base_offset, last_offset)))
        for index, batch in enumerate(batches):
            if self._count >= left or (self._count and self._is_exhausted(index)):
                return
            if batch.last_offset < base_offset:
                continue
            if batch.first_offset > last_offset:
                break
            if expected < batch.first_offset and expected <= window.loaded_until:
                self._acquire_new(expected, batch.first_offset - 1, left - self._count)
                if self._count >= left:
                    return
            expected = batch.last_offset + 1
            if not self._acquire_batch(batch, base_offset, last_offset, left):
                return
        if expected <= last_offset and self._count < left:
            # Between the window's end and the first batch above it there are no records.
            self._acquire_new(expected, last_offset, left - self._count)

    def _is_exhausted(self, batches: int) -> bool:
        """Return whether one call has done enough after so many batches."""
        is_long = batches >= _BATCHES_MAX or self._split_records >= _SPLIT_RECORDS_MAX
        return is_long or len(self._acquired) >= _RANGES_MAX

    def _acquire_batch(self, batch: InFlightBatch, base_offset: Offset, last_offset: Offset, left: int) -> bool:
        """Acquire what is available of a batch in flight; return whether more may be acquired after it."""
        if batch.cells is None and batch.cell & STATE_MASK != AVAILABLE:
            return True
        if batch.cells is not None:
            self._split_records += len(batch)
            if batch.first_available(max(base_offset, self._window.start_offset)) is None:
                return True
        wanted = self._wanted
        is_throttled = self._is_throttled(batch, base_offset, last_offset)
        if is_throttled and self._count:
            return False
        is_whole = (
            batch.first_offset >= max(base_offset, self._window.start_offset) and batch.last_offset <= last_offset
        )
        exceeds = wanted.is_record_limit and len(batch) > left - self._count
        if batch.cells is None and is_whole and not exceeds and not is_throttled:
            self._take(batch)
            return True
        before = self._count
        self._acquire_some(batch, base_offset, last_offset, left, is_throttled=is_throttled)
        return not (is_throttled and self._count > before)

    def _is_throttled(self, batch: InFlightBatch, base_offset: Offset, last_offset: Offset) -> bool:
        least = self._wanted.throttled_from
        if batch.cells is None:
            return count_of(batch.cell) >= least
        start, stop = batch.indexes(max(base_offset, self._window.start_offset), last_offset)
        return available_from(least).search(batch.cells, start, stop) is not None

    def _acquire_some(
        self, batch: InFlightBatch, base_offset: Offset, last_offset: Offset, left: int, *, is_throttled: bool
    ) -> None:
        """Acquire available records of a batch one by one, or by runs with one state and delivery count."""
        wanted = self._wanted
        limit, throttled_from = wanted.delivery_count_limit, wanted.throttled_from
        start, stop = batch.indexes(max(base_offset, self._window.start_offset), last_offset)
        taken, taken_max = 0, left - self._count if wanted.is_record_limit else stop - start
        is_limited = False
        cells, locks = batch.split()
        lock = NO_LOCK
        # The cells change below; runs are found in a copy.
        for run in AVAILABLE_RUNS.finditer(bytes(cells[start:stop])):
            value = run[1][0]
            count = count_of(value)
            is_last = limit > _ALONE_ABOVE and count == limit - 1
            if is_last and taken:
                break
            if is_throttled and count >= throttled_from and not is_limited:
                is_limited = True
                taken_max = min(taken_max, max(1, len(batch) >> (count - throttled_from + 1)))
            size = min(run.end() - run.start(), 1 if is_last else taken_max - taken)
            if size <= 0:
                break
            at = start + run.start()
            if lock == NO_LOCK:
                lock = self._add_lock(batch.first_offset + at, batch.first_offset + at + size - 1)
            else:
                self._window.locks.extend(lock, batch.first_offset + at + size - 1, size)
            cells[at : at + size] = bytes((ACQUIRE[value],)) * size
            locks[at : at + size] = array("I", (lock,)) * size
            self._note(batch.first_offset + at, batch.first_offset + at + size - 1, count + 1)
            taken += size
            if is_last or taken >= taken_max or len(self._acquired) >= _RANGES_MAX:
                break

    def _take(self, batch: InFlightBatch) -> None:
        """Acquire all records of a batch, which are of one state."""
        batch.cell = ACQUIRE[batch.cell]
        batch.lock = self._add_lock(batch.first_offset, batch.last_offset)
        self._note(batch.first_offset, batch.last_offset, count_of(batch.cell))

    def _acquire_new(self, first_offset: Offset, last_offset: Offset, records_max: int) -> None:
        """Acquire a range without batches in flight."""
        window, wanted = self._window, self._wanted
        index = 0
        while index < len(self._batches) and self._batches[index].last_offset < first_offset:
            index += 1
        if index < len(self._batches) and self._batches[index].base_offset > first_offset:
            missing_to = min(self._batches[index].base_offset - 1, last_offset)
            self._archive_hole(first_offset, missing_to)
            first_offset = missing_to + 1
        if first_offset > last_offset:
            return
        if records_max < last_offset - first_offset + 1:
            wanted_last = first_offset + records_max - 1
            if wanted.is_record_limit:
                last_offset = min(wanted_last, last_offset)
            else:
                last_offset = min(self._end_of_batch(wanted_last), last_offset)
        for first, last in self._cut(first_offset, last_offset):
            for start in range(first, last + 1, RECORDS_MAX):
                stop = min(start + RECORDS_MAX - 1, last)
                window.add(InFlightBatch(start, stop, cell(ACQUIRED, 1), self._add_lock(start, stop)))
            self._note(first, last, 1)

    def _archive_hole(self, first_offset: Offset, last_offset: Offset) -> None:
        """Note that the log has no records in a hole of the loaded window."""
        if first_offset <= self._window.loaded_until:
            self._window.archive_missing(first_offset, last_offset)

    def _end_of_batch(self, offset: Offset) -> Offset:
        """Return the last offset of the log's batch with ``offset``, or of the last one before it."""
        found = offset
        for batch in self._batches:
            if batch.base_offset > offset:
                break
            found = max(offset, batch.last_offset)
        return found

    def _cut(self, first_offset: Offset, last_offset: Offset) -> list[tuple[Offset, Offset]]:
        """Return ranges of about ``batch_size`` records that start with batches of the log."""
        batch_size = self._wanted.batch_size
        if self._wanted.is_record_limit or last_offset - first_offset + 1 <= batch_size:
            return [(first_offset, last_offset)]
        ranges = []
        for batch in self._batches:
            if batch.base_offset > last_offset:
                break
            if batch.base_offset - first_offset >= batch_size and batch.base_offset > first_offset:
                ranges.append((first_offset, batch.base_offset - 1))
                first_offset = batch.base_offset
        ranges.append((first_offset, last_offset))
        return ranges

    def _add_lock(self, first_offset: Offset, last_offset: Offset) -> int:
        wanted = self._wanted
        held = last_offset - first_offset + 1
        return self._window.locks.add(wanted.member_id, wanted.deadline_ms, first_offset, last_offset, held)

    def _note(self, first_offset: Offset, last_offset: Offset, delivery_count: int) -> None:
        self._acquired.append(AcquiredRange(first_offset, last_offset, delivery_count))
        self._count += last_offset - first_offset + 1
