"""`LargeRequests`: how many requests and responses with very many entries are worked on at a time.

As objects, entries take up to ten times their bytes. Each connection has at most one such message in hand; without this
bound, a thousand connections would have a thousand of them.
"""

from collections import deque
from typing import Final, TypeVar

from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps

T = TypeVar("T")

AT_ONCE: Final = 2
"""Two, so that a request behind a slow one does not wait for it."""
ENTRIES_IN_ONE_GO: Final = 1_000
"""A message of so many entries is decoded or encoded in one go, in a millisecond at most; above it, it is large."""


class LargeRequests:
    """Places for `AT_ONCE` messages, given to those that wait longest."""

    def __init__(self) -> None:
        self._free = AT_ONCE
        self._waiting: deque[Delayed[None]] = deque()
        self.waits = 0
        """How often a message has had to wait so far."""

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._waiting)

    def in_place(self, steps: Steps[T]) -> Steps[T]:
        """Return ``steps`` as they run once there is a place for them, which they hold to their end."""
        place = self._take_place()
        try:
            yield place
            return (yield from steps)
        finally:
            if place.is_complete:
                self._give_back()
            else:
                self._waiting.remove(place)

    def _take_place(self) -> Delayed[None]:
        if self._free:
            self._free -= 1
            return Delayed.of(None)
        self.waits += 1
        place: Delayed[None] = Delayed()
        self._waiting.append(place)
        return place

    def _give_back(self) -> None:
        if self._waiting:
            self._waiting.popleft().complete(None)
        else:
            self._free += 1
