"""`MemoryBudget`: limit on the bytes that work of a node holds at a time, with a queue of waiting work.

Work waits in order. Work that needs more than the limit runs alone, so no work waits for bytes that cannot become free.
"""

from collections import deque
from typing import Final

from ottla.purgatory.delayed import Delayed

NO_LIMIT_BYTES: Final = 2**63 - 1


class MemoryBudget:
    """Counter of held bytes.

    Attributes:
        limit_bytes: may be changed at any time.
        held_bytes: bytes that work holds now.
        waits: number of times that work had to wait so far.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.waits = 0
        self._waiting: deque[tuple[int, Delayed[None]]] = deque()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def acquire(self, size_bytes: int) -> Delayed[None]:
        """Hold ``size_bytes``; the result is complete when they are held. A waiting one may be abandoned."""
        granted: Delayed[None] = Delayed()
        if not self._waiting and self._has_capacity(size_bytes):
            self.held_bytes += size_bytes
            granted.complete(None)
            return granted
        entry = (size_bytes, granted)
        self._waiting.append(entry)
        self.waits += 1
        granted.on_abandon = lambda: self._abandon(entry)
        return granted

    def release(self, size_bytes: int) -> None:
        """Release bytes of `acquire`; waiting work may be granted its bytes before this returns."""
        self.held_bytes -= size_bytes
        self._grant()

    def _abandon(self, entry: tuple[int, Delayed[None]]) -> None:
        self._waiting.remove(entry)
        self._grant()

    def _has_capacity(self, size_bytes: int) -> bool:
        return self.held_bytes == 0 or self.held_bytes + size_bytes <= self.limit_bytes

    def _grant(self) -> None:
        while self._waiting and self._has_capacity(self._waiting[0][0]):
            size_bytes, granted = self._waiting.popleft()
            self.held_bytes += size_bytes
            granted.complete(None)
