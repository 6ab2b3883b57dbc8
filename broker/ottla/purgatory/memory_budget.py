"""`MemoryBudget`: how many bytes work may hold at a time, over a whole node, and the work that waits for some of them.

Work waits in order. Work that needs more than the limit runs when it is alone, so nothing waits for bytes that cannot
come.
"""

from collections import deque
from typing import Final

from ottla.purgatory.delayed import Delayed

NO_LIMIT_BYTES: Final = 2**63 - 1


class MemoryBudget:
    """See the module.

    Attributes:
        limit_bytes: may be changed at any time.
        held_bytes: what work holds now.
        waits: how often work has had to wait so far.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self.waits = 0
        self._waiting: deque[tuple[int, Delayed[None]]] = deque()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def take(self, size_bytes: int) -> Delayed[None]:
        """Hold ``size_bytes``; the result is complete when they are held. A waiting one may be abandoned."""
        granted: Delayed[None] = Delayed()
        if not self._waiting and self._has_room(size_bytes):
            self.held_bytes += size_bytes
            granted.complete(None)
            return granted
        entry = (size_bytes, granted)
        self._waiting.append(entry)
        self.waits += 1
        granted.on_abandon = lambda: self._abandon(entry)
        return granted

    def give_back(self, size_bytes: int) -> None:
        """Return what `take` gave; waiting work may be granted its bytes before this returns."""
        self.held_bytes -= size_bytes
        self._grant()

    def _abandon(self, entry: tuple[int, Delayed[None]]) -> None:
        self._waiting.remove(entry)
        self._grant()

    def _has_room(self, size_bytes: int) -> bool:
        return self.held_bytes == 0 or self.held_bytes + size_bytes <= self.limit_bytes

    def _grant(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size_bytes, granted = self._waiting.popleft()
            self.held_bytes += size_bytes
            granted.complete(None)
