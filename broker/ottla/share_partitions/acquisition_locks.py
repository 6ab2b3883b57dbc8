"""`AcquisitionLocks`: the members that have acquired records of a share-partition, and until when.

A lock is of one range that a member acquired at once. A record in flight names its lock by number, so that a record
costs four bytes. A lock ends with its last record, or when its time is over.

Source: AcquisitionLockTimerTask of Apache Kafka 4.3.1.
"""

import heapq
from dataclasses import dataclass
from typing import Final

from ottla.types import NEVER_MS, Offset

NO_LOCK: Final = 0
_PURGE_AT_LEAST: Final = 64
_NUMBER_MAX: Final = 2**31


@dataclass(slots=True)
class AcquisitionLock:
    """A range that ``member_id`` has acquired until ``deadline_ms``; ``held``: how many of its records it still has.

    ``generation`` distinguishes locks of an ended session from those that the member has acquired since.
    """

    number: int
    member_id: str
    deadline_ms: int
    first_offset: Offset
    last_offset: Offset
    held: int
    generation: int


class AcquisitionLocks:
    """See the module."""

    __slots__ = ("_by_member", "_by_number", "_deadlines", "_next_number", "generation")

    def __init__(self) -> None:
        self.generation = 0
        """Of locks that are added now."""
        self._by_number: dict[int, AcquisitionLock] = {}
        self._by_member: dict[str, dict[int, None]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._next_number = NO_LOCK + 1

    def __len__(self) -> int:
        """Return the number of locks."""
        return len(self._by_number)

    def add(self, member_id: str, deadline_ms: int, first_offset: Offset, last_offset: Offset, held: int) -> int:
        """Add a lock, and return its number."""
        number = self._next_number
        while number in self._by_number:
            number = number % _NUMBER_MAX + 1
        self._next_number = number % _NUMBER_MAX + 1
        self._by_number[number] = AcquisitionLock(
            number, member_id, deadline_ms, first_offset, last_offset, held, self.generation
        )
        self._by_member.setdefault(member_id, {})[number] = None
        heapq.heappush(self._deadlines, (deadline_ms, number))
        if len(self._deadlines) > max(_PURGE_AT_LEAST, 2 * len(self._by_number)):
            self._deadlines = [(lock.deadline_ms, lock.number) for lock in self._by_number.values()]
            heapq.heapify(self._deadlines)
        return number

    def find(self, number: int) -> AcquisitionLock | None:
        return self._by_number.get(number)

    def of_member(self, member_id: str) -> list[AcquisitionLock]:
        return [self._by_number[number] for number in self._by_member.get(member_id, ())]

    def extend(self, number: int, last_offset: Offset, count: int) -> None:
        """Add ``count`` records to the lock, the last of them at ``last_offset``, above its others."""
        lock = self._by_number[number]
        lock.last_offset = last_offset
        lock.held += count

    def release(self, number: int, count: int) -> None:
        """Note that ``count`` records of the lock have been released; with the last one it ends."""
        lock = self._by_number.get(number)
        if lock is not None:
            lock.held -= count
            if lock.held <= 0:
                self.remove(lock)

    def remove(self, lock: AcquisitionLock) -> None:
        if self._by_number.pop(lock.number, None) is None:
            return
        numbers = self._by_member[lock.member_id]
        del numbers[lock.number]
        if not numbers:
            del self._by_member[lock.member_id]

    def due_ms(self) -> int:
        """Return the earliest deadline; NEVER_MS if there is no lock."""
        while self._deadlines:
            deadline_ms, number = self._deadlines[0]
            lock = self._by_number.get(number)
            if lock is not None and lock.deadline_ms == deadline_ms:
                return deadline_ms
            heapq.heappop(self._deadlines)
        return NEVER_MS

    def pop_expired(self, now_ms: int) -> AcquisitionLock | None:
        """Remove and return a lock whose time is over."""
        if self.due_ms() > now_ms:
            return None
        _, number = heapq.heappop(self._deadlines)
        lock = self._by_number[number]
        self.remove(lock)
        return lock
