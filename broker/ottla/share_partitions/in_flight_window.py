"""`InFlightWindow`: the records between a share-partition's start offset and its end offset, by batch.

Every record below the start is acknowledged or archived. Offsets without a batch are holes: below ``loaded_until``, the
end of what the share coordinator returned, they are records that no member has acquired yet, above it they have no
record (the log is compacted).

Source: SharePartition (cachedState, GapWindow) of Apache Kafka 4.3.1.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from ottla.share_partitions.acquisition_locks import AcquisitionLocks
from ottla.share_partitions.in_flight_batch import RECORDS_MAX, InFlightBatch
from ottla.share_partitions.record_state import ARCHIVE_AVAILABLE, ARCHIVED, AVAILABLE, STATE_MASK, cell
from ottla.types import Offset


class InFlightWindow:
    """See the module."""

    __slots__ = (
        "_available_from",
        "_batches",
        "_firsts",
        "complete_count",
        "end_offset",
        "is_next_in_window",
        "loaded_until",
        "locks",
        "start_offset",
    )

    def __init__(self, start_offset: Offset) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        """The last offset of the last batch; the start offset while there is no batch."""
        self.complete_count = 0
        """Records of the window that are acknowledged or archived."""
        self.loaded_until: Offset = -1
        """The last offset that the share coordinator returned; -1 once no hole is left below it."""
        self.is_next_in_window = False
        """Whether records of the window may be available: else the next fetch is at its end."""
        self.locks = AcquisitionLocks()
        self._available_from: Offset = start_offset
        """No record below it is available, so that the next search starts here."""
        self._batches: list[InFlightBatch] = []
        self._firsts: list[Offset] = []

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._batches)

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset + 1 if self._batches else 0

    @property
    def next_new_offset(self) -> Offset:
        """The first offset above the window."""
        return self.end_offset + 1 if self._batches else max(self.start_offset, self.end_offset)

    def next_fetch_offset(self) -> Offset:
        """Return the first offset that can be acquired."""
        if not self.is_next_in_window or not self._batches:
            self.is_next_in_window = False
            return self.next_new_offset
        start = max(bisect_right(self._firsts, self._available_from) - 1, 0)
        expected = self._firsts[start] if start else self.start_offset
        for index in range(start, len(self._batches)):
            batch = self._batches[index]
            if batch.first_offset > expected and expected <= self.loaded_until:
                self._available_from = expected
                return expected
            found = batch.first_available(self.start_offset)
            if found is not None:
                self._available_from = found
                return found
            expected = batch.last_offset + 1
        self._available_from = expected
        self.is_next_in_window = False
        self.loaded_until = -1
        return self.next_new_offset

    def note_available(self, offset: Offset) -> None:
        """Note that records from ``offset`` on may have become available."""
        self.is_next_in_window = True
        self._available_from = min(self._available_from, offset)

    def floor(self, offset: Offset) -> InFlightBatch | None:
        """Return the last batch that starts at or below ``offset``."""
        index = bisect_right(self._firsts, offset) - 1
        return self._batches[index] if index >= 0 else None

    def between(self, first_offset: Offset, last_offset: Offset) -> list[InFlightBatch]:
        """Return the batches that start in this range."""
        return self._batches[bisect_left(self._firsts, first_offset) : bisect_right(self._firsts, last_offset)]

    def overlapping(self, first_offset: Offset, last_offset: Offset) -> list[InFlightBatch]:
        """Return the batches that have offsets of this range."""
        start = max(bisect_right(self._firsts, first_offset) - 1, 0)
        if self._batches and self._batches[start].last_offset < first_offset:
            start += 1
        return self._batches[start : bisect_right(self._firsts, last_offset)]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch of offsets that have none."""
        index = bisect_left(self._firsts, batch.first_offset)
        if not self._batches:
            self.start_offset = max(self.start_offset, batch.first_offset)
            self.end_offset = batch.last_offset
        self.end_offset = max(self.end_offset, batch.last_offset)
        self._firsts.insert(index, batch.first_offset)
        self._batches.insert(index, batch)
        self.complete_count += batch.complete_count(self.start_offset, batch.last_offset)

    def divide(self, batch: InFlightBatch) -> Iterator[InFlightBatch]:
        """Divide a batch into those of `RECORDS_MAX` records, and yield them one by one.

        A batch that the share coordinator returned may have any size. None of its records is acquired: no other work
        that is under way refers to it.
        """
        may_acquire = batch.cells is not None or batch.cell & STATE_MASK == AVAILABLE
        while may_acquire and len(batch) > RECORDS_MAX:
            rest = batch.cut_at(batch.first_offset + RECORDS_MAX)
            index = bisect_left(self._firsts, rest.first_offset)
            self._firsts.insert(index, rest.first_offset)
            self._batches.insert(index, rest)
            yield batch
            batch = rest
        yield batch

    def archive_missing(self, first_offset: Offset, last_offset: Offset) -> None:
        """Archive the available offsets and the holes of a range: a read has shown that the log has no records there.

        Nothing is written to the share coordinator: the next leader will find the same.
        """
        last_offset = min(last_offset, self.end_offset)
        first_offset = max(first_offset, self.start_offset)
        if not self._batches or first_offset > last_offset:
            return
        expected = first_offset
        holes = []
        for batch in self.overlapping(first_offset, last_offset):
            if batch.first_offset > expected:
                holes.append((expected, batch.first_offset - 1))
            start, stop = batch.indexes(first_offset, last_offset)
            if batch.first_available(first_offset) is not None:
                self.complete_count += batch.change(start, stop, ARCHIVE_AVAILABLE)
            expected = batch.last_offset + 1
        if expected <= last_offset:
            holes.append((expected, last_offset))
        for first, last in holes:
            if first <= self.loaded_until:
                self.add(InFlightBatch(first, min(last, self.loaded_until), cell(ARCHIVED, 0)))

    def advance_start(self) -> bool:
        """Move the start past records that are acknowledged or archived; return whether it moved."""
        before = self.start_offset
        expected, done = before, 0
        for batch in self._batches:
            if batch.first_offset > expected and expected <= self.loaded_until:
                break
            unfinished = batch.first_unfinished(max(expected, batch.first_offset))
            if unfinished is not None:
                expected = unfinished
                break
            expected = batch.last_offset + 1
            done += 1
        if expected == before:
            return False
        self._remove_below(expected, done)
        return True

    def raise_start(self, log_start_offset: Offset) -> None:
        """Move the start to the log's, which retention or DeleteRecords has raised.

        Records that a member has acquired below it are dropped: an acknowledgement of them has no effect any more.
        """
        done = 0
        for batch in self._batches:
            if batch.last_offset >= log_start_offset:
                break
            done += 1
            self._remove_locks(batch)
        if done < len(self._batches):
            batch = self._batches[done]
            dropped = log_start_offset - max(self.start_offset, batch.first_offset)
            if dropped > 0 and batch.cells is None and batch.cell & STATE_MASK == AVAILABLE:
                batch.first_offset = self._firsts[done] = log_start_offset
            elif dropped > 0 and batch.first_available(self.start_offset) is not None:
                start, stop = batch.indexes(self.start_offset, log_start_offset - 1)
                self.complete_count += batch.change(start, stop, ARCHIVE_AVAILABLE)
        self._remove_below(log_start_offset, done)

    def _remove_locks(self, batch: InFlightBatch) -> None:
        for number in batch.distinct_locks(0, len(batch)):
            lock = self.locks.find(number)
            if lock is not None:
                self.locks.remove(lock)

    def _remove_below(self, offset: Offset, count: int) -> None:
        """Move the start to ``offset``; the first ``count`` batches are below it."""
        for batch in self._batches[:count]:
            self.complete_count -= batch.complete_count(self.start_offset, batch.last_offset)
        if count < len(self._batches):
            batch = self._batches[count]
            if batch.first_offset < offset and self.start_offset < offset:
                self.complete_count -= batch.complete_count(self.start_offset, offset - 1)
        del self._batches[:count], self._firsts[:count]
        self.start_offset = offset
        if self._batches:
            if offset <= self.loaded_until:
                return
            self.start_offset = max(offset, self._batches[0].first_offset)
        else:
            self.end_offset = offset
            self.loaded_until = -1
            self.is_next_in_window = False
            self.complete_count = 0
