"""`LargeRequests`: bound on requests and responses with very many entries that are processed at a time.

As objects, entries take up to ten times their bytes. Each connection processes at most one such message; without this
bound, a thousand connections would process a thousand of them. Messages of nodes and of clients have separate queues:
many clients must not keep replicas from fetching.
"""

from collections import deque
from typing import Any, Final, TypeVar

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps

T = TypeVar("T")

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Of a response that is encoded in slices, without records; a larger one closes its connection: clients reject it."""
ENTRIES_IN_ONE_GO: Final = 1_000
"""A message of so many entries is decoded or encoded at once, in at most a millisecond; above it, it is large."""


class LargeRequests:
    """Slot for one large message at a time, granted in order of arrival."""

    def __init__(self) -> None:
        self._is_free = True
        self._waiting: deque[Delayed[None]] = deque()
        self.waits = 0
        """Number of messages that had to wait so far."""

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._waiting)

    def in_slot(self, steps: Steps[T]) -> Steps[T]:
        """Run ``steps`` in the slot, which is released while they wait for an event."""
        slot: Delayed[None] | None = self._acquire()
        try:
            yield slot
            value: Any = None
            while True:
                try:
                    event = steps.send(value)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                if event is None or event.is_complete:
                    value = yield event
                    continue
                self._release()
                slot = None
                value = yield event
                slot = self._acquire()
                yield slot
        finally:
            steps.close()
            if slot is not None and slot.is_complete:
                self._release()
            elif slot is not None:
                self._waiting.remove(slot)

    def _acquire(self) -> Delayed[None]:
        if self._is_free:
            self._is_free = False
            return Delayed.of(None)
        self.waits += 1
        slot: Delayed[None] = Delayed()
        self._waiting.append(slot)
        return slot

    def _release(self) -> None:
        if self._waiting:
            self._waiting.popleft().complete(None)
        else:
            self._is_free = True
