"""`Timers`: named deadlines. No clock: the owner calls `run_due` with the time.

A heartbeat only moves its deadline to later, thousands of times before it is due: then nothing but a number changes;
the heap's entry is put back with the new deadline when its old one comes up.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import TypeAlias

Operation: TypeAlias = Callable[[], object]


class _Timer:
    __slots__ = ("deadline_ms", "operation", "queued_ms")

    def __init__(self, deadline_ms: int, operation: Operation) -> None:
        self.deadline_ms = deadline_ms
        self.queued_ms = deadline_ms
        self.operation = operation


class Timers:
    """Deadlines by key; a key has one deadline at most. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, _Timer] = {}
        self._heap: list[tuple[int, int, Hashable, _Timer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def schedule(self, key: Hashable, deadline_ms: int, operation: Operation) -> None:
        """Plan ``operation`` for ``deadline_ms``, instead of what ``key`` had planned before."""
        if self.postpone(key, deadline_ms):
            self._by_key[key].operation = operation
            return
        timer = self._by_key[key] = _Timer(deadline_ms, operation)
        self._push(key, timer)

    def postpone(self, key: Hashable, deadline_ms: int) -> bool:
        """Move what ``key`` has planned to ``deadline_ms``; return False if it has nothing, or only for later."""
        timer = self._by_key.get(key)
        if timer is None or timer.queued_ms > deadline_ms:
            return False
        timer.deadline_ms = deadline_ms
        return True

    def cancel(self, key: Hashable) -> None:
        """Drop what ``key`` has planned, if anything."""
        self._by_key.pop(key, None)

    def cancel_where(self, matches: Callable[[Hashable], bool]) -> None:
        """Cancel the timers of all keys for which ``matches`` is true; takes time in proportion to all timers."""
        self._by_key = {key: timer for key, timer in self._by_key.items() if not matches(key)}

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline."""
        while self._heap:
            queued_ms, _, key, timer = self._heap[0]
            if self._by_key.get(key) is not timer:
                heapq.heappop(self._heap)
            elif timer.deadline_ms > queued_ms:
                heapq.heappop(self._heap)
                timer.queued_ms = timer.deadline_ms
                self._push(key, timer)
            else:
                return queued_ms
        return None

    def run_due(self, now_ms: int, is_over: Callable[[], bool] = lambda: False) -> int:
        """Run the operations whose deadline is at or before ``now_ms``, the earliest first; return how many.

        It ends early, after at least one, once ``is_over`` returns True.
        """
        count = 0
        while (deadline_ms := self.next_deadline_ms()) is not None and deadline_ms <= now_ms:
            _, _, key, timer = heapq.heappop(self._heap)
            del self._by_key[key]
            timer.operation()
            count += 1
            if is_over():
                break
        return count

    def _push(self, key: Hashable, timer: _Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (timer.queued_ms, self._sequence, key, timer))
