"""`InFlightBatch`: records that were acquired together; one state for all of them until they differ.

Source: InFlightBatch of Apache Kafka 4.3.1.
"""

from array import array
from typing import Final

from ottla.share_partitions.acquisition_locks import NO_LOCK
from ottla.share_partitions.record_state import (
    AVAILABLE,
    FIRST_AVAILABLE,
    FIRST_UNFINISHED,
    IS_COMPLETE,
    STATE_MASK,
)
from ottla.types import Offset

RECORDS_MAX: Final = 4_096
"""Of a batch of which any record is acquired: work for each record of one batch takes 200 us at most."""
_LOCKS: Final = "I"


class InFlightBatch:
    """See the module. ``cells`` and ``locks`` are None while all records have the same ones, ``cell`` and ``lock``."""

    __slots__ = ("cell", "cells", "first_offset", "last_offset", "lock", "locks")

    def __init__(self, first_offset: Offset, last_offset: Offset, cell: int, lock: int = NO_LOCK) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.cell = cell
        self.lock = lock
        self.cells: bytearray | None = None
        self.locks: array[int] | None = None

    def __len__(self) -> int:
        """Return the number of offsets."""
        return self.last_offset - self.first_offset + 1

    def split(self) -> tuple[bytearray, "array[int]"]:
        """Keep a state per record from now on, as Kafka does: the messages of errors are others then."""
        if self.cells is None or self.locks is None:
            self.cells = bytearray((self.cell,)) * len(self)
            self.locks = array(_LOCKS, (self.lock,)) * len(self)
        return self.cells, self.locks

    def cut_at(self, offset: Offset) -> "InFlightBatch":
        """Remove and return the records from ``offset`` on."""
        rest = InFlightBatch(offset, self.last_offset, self.cell, self.lock)
        if self.cells is not None and self.locks is not None:
            at = offset - self.first_offset
            rest.cells, rest.locks = self.cells[at:], self.locks[at:]
            del self.cells[at:], self.locks[at:]
        self.last_offset = offset - 1
        return rest

    def cells_between(self, first_offset: Offset, last_offset: Offset) -> bytes:
        """Return the cells of the batch's records in this range."""
        start, stop = self.indexes(first_offset, last_offset)
        return bytes((self.cell,)) * (stop - start) if self.cells is None else bytes(self.cells[start:stop])

    def indexes(self, first_offset: Offset, last_offset: Offset) -> tuple[int, int]:
        """Return start and stop of the range within the batch."""
        start = max(first_offset - self.first_offset, 0)
        return start, max(min(last_offset, self.last_offset) - self.first_offset + 1, start)

    def distinct_locks(self, start: int, stop: int) -> set[int]:
        """Return the numbers of the locks of these indexes."""
        return {self.lock} if self.locks is None else set(self.locks[start:stop])

    def first_available(self, from_offset: Offset) -> Offset | None:
        """Return the first offset at or above ``from_offset`` that can be acquired."""
        start = max(from_offset - self.first_offset, 0)
        if self.cells is None:
            is_available = self.cell & STATE_MASK == AVAILABLE and start < len(self)
            return self.first_offset + start if is_available else None
        found = FIRST_AVAILABLE.search(self.cells, start)
        return None if found is None else self.first_offset + found.start()

    def first_unfinished(self, from_offset: Offset) -> Offset | None:
        """Return the first offset at or above ``from_offset`` that is neither acknowledged nor archived for good."""
        start = max(from_offset - self.first_offset, 0)
        if self.cells is None:
            is_unfinished = FIRST_UNFINISHED.match(bytes((self.cell,))) is not None and start < len(self)
            return self.first_offset + start if is_unfinished else None
        found = FIRST_UNFINISHED.search(self.cells, start)
        return None if found is None else self.first_offset + found.start()

    def complete_count(self, first_offset: Offset, last_offset: Offset) -> int:
        """Return how many records of the range are acknowledged or archived, those included that await a write."""
        start, stop = self.indexes(first_offset, last_offset)
        if self.cells is None:
            return (stop - start) * IS_COMPLETE[self.cell]
        return self.cells[start:stop].translate(IS_COMPLETE).count(1)

    def change(self, start: int, stop: int, table: bytes) -> int:
        """Replace the cells of these indexes, and return by how much the number of complete records grew."""
        if self.cells is None and start == 0 and stop == len(self):
            before, self.cell = self.cell, table[self.cell]
            return (IS_COMPLETE[self.cell] - IS_COMPLETE[before]) * len(self)
        cells, _ = self.split()
        old = cells[start:stop]
        new = old.translate(table)
        cells[start:stop] = new
        return new.translate(IS_COMPLETE).count(1) - old.translate(IS_COMPLETE).count(1)
