"""`LargeRequests`: how many requests and responses with very many entries are worked on at a time.

As objects, entries take up to ten times their bytes. Each connection has at most one such message in hand; without this
bound, a thousand connections would have a thousand of them. Messages of nodes and of clients wait apart from each
other: many clients must not keep replicas from fetching.
"""

from collections import deque
from typing import Any, Final, TypeVar

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps

T = TypeVar("T")

RESPONSE_BYTES_MAX: Final = 100 * 1024 * 1024
"""Of a response that is encoded in slices, without records: a larger one closes its connection, as its client would."""
ENTRIES_IN_ONE_GO: Final = 1_000
"""A message of so many entries is decoded or encoded in one go, in a millisecond at most; above it, it is large."""


class LargeRequests:
    """The place for one large message, given to the one that waits longest."""

    def __init__(self) -> None:
        self._is_free = True
        self._waiting: deque[Delayed[None]] = deque()
        self.waits = 0
        """How often a message has had to wait so far."""

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._waiting)

    def in_place(self, steps: Steps[T]) -> Steps[T]:
        """Return ``steps`` as they run in the place, which others have while they wait for an event."""
        place: Delayed[None] | None = self._acquire()
        try:
            yield place
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
                place = None
                value = yield event
                place = self._acquire()
                yield place
        finally:
            steps.close()
            if place is not None and place.is_complete:
                self._release()
            elif place is not None:
                self._waiting.remove(place)

    def _acquire(self) -> Delayed[None]:
        if self._is_free:
            self._is_free = False
            return Delayed.of(None)
        self.waits += 1
        place: Delayed[None] = Delayed()
        self._waiting.append(place)
        return place

    def _release(self) -> None:
        if self._waiting:
            self._waiting.popleft().complete(None)
        else:
            self._is_free = True
