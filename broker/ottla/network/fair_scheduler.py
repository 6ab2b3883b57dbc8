"""`FairScheduler`: connections with requests at hand that wait until others have been served.

A peer may send thousands of small requests ahead of their answers. Served in one go they would hold up the loop, so a
connection has a part of a millisecond for them, and then waits here for its next turn, which is as short.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.ports import Clock

if TYPE_CHECKING:
    from ottla.network.connection import Connection

_SHARE_NS: Final = 100_000
"""Of a turn of the loop: as a rule others wait for no longer than that."""


class FairScheduler:
    """See the module; ``on_turn`` is told of a connection that may go on."""

    __slots__ = ("_clock", "_on_turn", "_until_ns", "_waiting")

    def __init__(self, clock: Clock, on_turn: "Callable[[Connection], None]") -> None:
        self._clock = clock
        self._on_turn = on_turn
        self._waiting: deque[Connection] = deque()
        self._until_ns: int | None = None
        """While connections go on: how long they may."""

    def __bool__(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiting)

    def wait(self, connection: "Connection") -> None:
        """Have ``connection`` go on when others have been served; its reading is paused by the caller."""
        connection.has_had_turn = connection.is_blocked = True
        self._waiting.append(connection)

    def take(self) -> None:
        """Let connections go on, each at most once, until the share is used up; at least one."""
        self._until_ns = self._clock.monotonic_ns() + _SHARE_NS
        for _ in range(len(self._waiting)):
            connection = self._waiting.popleft()
            connection.has_had_turn = False
            self._on_turn(connection)
            if self.are_over():
                break
        self._until_ns = None

    def are_over(self) -> bool:
        """Whether connections have gone on for their share; False where none goes on now."""
        return self._until_ns is not None and self._clock.monotonic_ns() >= self._until_ns
