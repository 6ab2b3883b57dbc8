"""`EventQueue`: future events in order of time; time jumps from one event to the next."""

import heapq
from collections.abc import Callable
from typing import Any, TypeVarTuple

from ottla.simulator.world.clock import SimulatedClock

ArgumentsT = TypeVarTuple("ArgumentsT")


class EventQueue:
    """Actions with a time; those of the same millisecond happen in the order in which they were put in."""

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock
        self._events: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._sequence = 0

    def at(self, time_ms: int, action: Callable[[*ArgumentsT], object], *arguments: *ArgumentsT) -> None:
        """Let ``action`` happen at ``time_ms``, with these ``arguments``."""
        self._sequence += 1
        heapq.heappush(self._events, (time_ms, self._sequence, action, arguments))

    def after(self, delay_ms: int, action: Callable[[*ArgumentsT], object], *arguments: *ArgumentsT) -> None:
        self.at(self._clock.now_ms + delay_ms, action, *arguments)

    def next_ms(self) -> int | None:
        return self._events[0][0] if self._events else None

    def take_due(self) -> tuple[Callable[..., object], tuple[Any, ...]] | None:
        """Return the next action that is due, and its arguments."""
        if self._events and self._events[0][0] <= self._clock.now_ms:
            _, _, action, arguments = heapq.heappop(self._events)
            return action, arguments
        return None
