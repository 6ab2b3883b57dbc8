"""`MemoryBudget`: how many bytes work may hold at a time, over a whole node, and the work that waits for some of them.

Work waits in order. Work that needs more than the limit runs when it is alone, so nothing waits for bytes that cannot
come.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ottla.ports import Background
from ottla.purgatory.delayed import Delayed
from ottla.purgatory.in_background import in_background
from ottla.purgatory.steps import Steps

T = TypeVar("T")


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


class HeldMemory:
    """Bytes of a `MemoryBudget` that steps and their work off the loop hold; given back when both have ended.

    Steps that are closed while a thread works for them leave the bytes to that thread.
    """

    def __init__(self, budget: MemoryBudget, size_bytes: int, background: Background) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._background = background
        self._granted: Delayed[None] | None = None
        self._is_working = False
        self._is_over = False

    def acquire(self) -> Steps[None]:
        """Wait for the bytes."""
        self._granted = self._budget.take(self._size_bytes)
        if not self._granted.is_complete:
            yield self._granted

    def work(self, work: Callable[[], T]) -> Steps[T]:
        """Perform ``work`` off the loop, as `in_background`; where no thread can be created, on the loop after all."""
        has_begun = False

        def begin() -> T:
            nonlocal has_begun
            has_begun = True
            return work()

        self._is_working = True
        try:
            return (yield from in_background(self._background, begin, on_end=self._on_work_ended))
        except RuntimeError:
            if has_begun:
                raise
            return work()

    def _on_work_ended(self) -> None:
        self._is_working = False
        if self._is_over:
            self._budget.give_back(self._size_bytes)

    def release(self) -> None:
        """Give the bytes back, now or when the thread has done with them; no error when they were never granted."""
        if self._granted is None or self._is_over:
            return
        self._is_over = True
        if not self._granted.is_complete:
            self._granted.abandon()
        elif not self._is_working:
            self._budget.give_back(self._size_bytes)
