"""`Purgatory`: operations that wait for a condition on some keys, or for a deadline, which the owner checks.

An operation is tried when it is added, and whenever one of its keys is `check`ed; it ends at its deadline, or when its
waiter abandons it (`Delayed.abandon`). Deadlines are in a heap whose top is always a waiting operation; other ended
operations are purged from it from time to time, and their references at once. An ended operation is removed from its
keys without traversing their other operations. An operation should have few keys: work for each of thousands belongs
into slices (`purgatory.steps`) behind one key.

Source: DelayedOperationPurgatory of Apache Kafka, without its timer wheel and threads.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NoReturn, TypeVar

from ottla.purgatory.delayed import Delayed
from ottla.types import NEVER_MS

T = TypeVar("T")

_PURGE_AT_LEAST = 1_000
_ABSENT = object()


def _never() -> NoReturn:
    raise AssertionError("an operation that has ended was tried again")


class _Operation(Generic[T]):
    __slots__ = ("delayed", "keys", "on_deadline", "try_complete")

    def __init__(
        self, keys: tuple[Hashable, ...], try_complete: Callable[[], T | None], on_deadline: Callable[[], T]
    ) -> None:
        self.keys = keys
        self.try_complete = try_complete
        self.on_deadline = on_deadline
        self.delayed: Delayed[T] = Delayed()

    def release(self) -> None:
        """Drop the references to the request and its response: the operation may stay in the heap for long."""
        self.try_complete = self.on_deadline = _never
        self.delayed.on_abandon = None


class Purgatory(Generic[T]):
    """Waiting operations of one kind (produce, fetch, ...), by key and by deadline.

    ``due_ms`` is the earliest deadline; NEVER_MS while no operation waits.
    """

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[_Operation[T], None]] = {}
        self._deadlines: list[tuple[int, int, _Operation[T]]] = []
        self._sequence = 0
        self._waiting = 0
        self._ended_in_heap = 0
        """Operations that have ended since the last purge: they may still be in the heap."""
        self.due_ms = NEVER_MS

    def __len__(self) -> int:
        """Return how many operations wait."""
        return self._waiting

    def watch(
        self,
        keys: Iterable[Hashable],
        *,
        deadline_ms: int,
        try_complete: Callable[[], T | None],
        on_deadline: Callable[[], T],
        is_tried: bool = False,
    ) -> Delayed[T]:
        """Wait until ``try_complete`` returns a value, or ``deadline_ms`` (monotonic) passes.

        ``try_complete`` is called now, unless the caller has already tried it (``is_tried``), and at every `check` of
        one of ``keys``; it returns None to continue waiting. ``on_deadline`` returns the value at the deadline.
        """
        operation = _Operation(tuple(keys), try_complete, on_deadline)
        value = None if is_tried else try_complete()
        if value is not None:
            operation.delayed.complete(value)
            return operation.delayed
        operation.delayed.on_abandon = lambda: self._finished(operation)
        for key in operation.keys:
            waiting = self._by_key.get(key)
            if waiting is None:
                self._by_key[key] = {operation: None}
            else:
                waiting[operation] = None
        self._sequence += 1
        heapq.heappush(self._deadlines, (deadline_ms, self._sequence, operation))
        self.due_ms = deadline_ms if deadline_ms < self.due_ms else self.due_ms
        self._waiting += 1
        return operation.delayed

    def check(self, key: Hashable) -> int:
        """Try every operation that waits for ``key``; return how many completed."""
        waiting = self._by_key.get(key)
        if waiting is None:
            return 0
        completed = 0
        # Operations that completions add for this key are not tried again: `watch` has tried them.
        for operation in list(waiting):
            if operation.delayed.is_complete:
                continue
            value = operation.try_complete()
            if value is not None and operation.delayed.complete(value):
                self._finished(operation)
                completed += 1
        return completed

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline of a waiting operation."""
        return None if self.due_ms == NEVER_MS else self.due_ms

    def expire(self, now_ms: int) -> int:
        """Complete every operation whose deadline is at or before ``now_ms``; return how many."""
        expired = 0
        while self.due_ms <= now_ms:
            _, _, operation = heapq.heappop(self._deadlines)
            self._pop_ended()
            self._remove_from_keys(operation)
            if operation.delayed.complete(operation.on_deadline()):
                self._waiting -= 1
                expired += 1
            operation.release()
        return expired

    def _finished(self, operation: _Operation[T]) -> None:
        """Remove an operation that ended before its deadline; it is still in the heap."""
        self._remove_from_keys(operation)
        operation.release()
        self._waiting -= 1
        self._ended_in_heap += 1
        if self._ended_in_heap > _PURGE_AT_LEAST and self._ended_in_heap > self._waiting:
            self._purge()
        self._pop_ended()

    def _pop_ended(self) -> None:
        """Remove ended operations from the top of the heap."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].delayed.is_complete:
            heapq.heappop(deadlines)
        self.due_ms = deadlines[0][0] if deadlines else NEVER_MS

    def _purge(self) -> None:
        """Remove ended operations: otherwise a busy key's long deadlines would accumulate."""
        self._deadlines = [entry for entry in self._deadlines if not entry[2].delayed.is_complete]
        heapq.heapify(self._deadlines)
        self._ended_in_heap = 0

    def _remove_from_keys(self, operation: _Operation[T]) -> None:
        for key in operation.keys:
            waiting = self._by_key.get(key)
            if waiting is not None and waiting.pop(operation, _ABSENT) is None and not waiting:
                del self._by_key[key]
