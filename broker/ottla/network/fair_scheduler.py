"""`FairScheduler`: round-robin among connections with pipelined requests.

A client may pipeline thousands of small requests. Served at once they would block the loop, so a connection gets a
slice of a part of a millisecond, and then waits here for its next slice.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.ports import Clock

if TYPE_CHECKING:
    from ottla.network.connection import Connection

_ITERATION_NS: Final = 100_000
"""Per loop iteration: usually other connections wait no longer than that."""


class FairScheduler:
    """Round-robin queue of connections; ``on_slice`` serves a connection in its slice."""

    __slots__ = ("_clock", "_on_slice", "_until_ns", "_waiting")

    def __init__(self, clock: Clock, on_slice: "Callable[[Connection], None]") -> None:
        self._clock = clock
        self._on_slice = on_slice
        self._waiting: deque[Connection] = deque()
        self._until_ns: int | None = None
        """End of the current slices; None while no connection is served."""

    def __bool__(self) -> bool:
        """Whether a connection waits."""
        return bool(self._waiting)

    def enqueue(self, connection: "Connection") -> None:
        """Serve ``connection`` again after the others; the caller pauses its reading."""
        connection.awaits_slice = connection.is_blocked = True
        self._waiting.append(connection)

    def run_slices(self) -> None:
        """Serve connections, each at most once, until the time is used up; at least one."""
        self._until_ns = self._clock.monotonic_ns() + _ITERATION_NS
        for _ in range(len(self._waiting)):
            connection = self._waiting.popleft()
            connection.awaits_slice = False
            self._on_slice(connection)
            if self.is_slice_over():
                break
        self._until_ns = None

    def is_slice_over(self) -> bool:
        """Return whether the time for slices is used up; False while none is running."""
        return self._until_ns is not None and self._clock.monotonic_ns() >= self._until_ns
