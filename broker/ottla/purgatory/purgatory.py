"""Operations that wait for a condition on some keys, or for their deadline. No timers: the owner calls `expire`.

An operation is tried when it enters, again whenever one of its keys is `check`ed, and is given up at its deadline, or
when who waits for it is gone (`Delayed.abandon`). Deadlines are kept in a heap, of which the first one always waits;
other operations that have ended are dropped from it now and then, what they held on to at once. From its keys an
operation is removed when it ends: that takes no walk over the others that wait for them. It should have few keys: work
for each of thousands belongs into slices (`purgatory.steps`) behind one key.

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
        """Let go of the request and its answer: the shell may stay in a heap for long."""
        self.try_complete = self.on_deadline = _never
        self.delayed.on_abandon = None


class Purgatory(Generic[T]):
    """Waiting operations of one kind (produce, fetch, ...), by key and by deadline.

    ``due_ms`` is the earliest deadline; NEVER_MS while nothing waits.
    """

    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[_Operation[T], None]] = {}
        self._deadlines: list[tuple[int, int, _Operation[T]]] = []
        self._sequence = 0
        self._waiting = 0
        self._left_behind = 0
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

        ``try_complete`` is called now, unless the caller has just found that it would be in vain (``is_tried``), and at
        every `check` of one of ``keys``; it returns None to continue waiting. ``on_deadline`` gives the value when time
        is up.
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
        # What a completion adds for this key meanwhile is not tried: it was tried as it was added.
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
            self._uncover()
            self._remove_from_keys(operation)
            if operation.delayed.complete(operation.on_deadline()):
                self._waiting -= 1
                expired += 1
            operation.release()
        return expired

    def _finished(self, operation: _Operation[T]) -> None:
        """Let go of one that ended before its deadline, and is in the heap still."""
        self._remove_from_keys(operation)
        operation.release()
        self._waiting -= 1
        self._left_behind += 1
        if self._left_behind > _PURGE_AT_LEAST and self._left_behind > self._waiting:
            self._purge()
        self._uncover()

    def _uncover(self) -> None:
        """Drop what has ended from the top of the heap."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2].delayed.is_complete:
            heapq.heappop(deadlines)
        self.due_ms = deadlines[0][0] if deadlines else NEVER_MS

    def _purge(self) -> None:
        """Drop completed operations: without it a busy key's long deadlines would pile up."""
        self._deadlines = [entry for entry in self._deadlines if not entry[2].delayed.is_complete]
        heapq.heapify(self._deadlines)
        self._left_behind = 0

    def _remove_from_keys(self, operation: _Operation[T]) -> None:
        for key in operation.keys:
            waiting = self._by_key.get(key)
            if waiting is not None and waiting.pop(operation, _ABSENT) is None and not waiting:
                del self._by_key[key]
