"""`Backlog`: links with more at hand than a turn of the loop has room for.

Who sends request after request without waiting for answers, or takes hundreds of megabytes, always has something to
be done. If all of that were done when the selector tells of it, whoever asks for one small thing would wait for the
whole crowd. So it is put off behind everybody else's events: a tenth of a millisecond a turn, one link after the other.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.ports import Clock
from ottla.runtime.link import Link

SHARE_NS: Final = 100_000
"""Of a turn. With five times as much others waited about twice as long beside a crowd (benchmarks/RESULTS.md)."""


class Backlog:
    """See the module; ``links`` is empty where `turn` has nothing to do.

    Args of the constructor:
        on_turn: gets a link and the events that it was put off with; the link may have been closed meanwhile.
    """

    __slots__ = ("_clock", "_on_turn", "links")

    def __init__(self, clock: Clock, on_turn: Callable[[Link, int], None]) -> None:
        self._clock = clock
        self._on_turn = on_turn
        self.links: deque[Link] = deque()

    def add(self, link: Link, events: int) -> None:
        """Put ``events`` of ``link`` off, to those of it that wait already if there are some."""
        if not link.events_put_off:
            self.links.append(link)
        link.events_put_off |= events

    def turn(self) -> None:
        """Let links go on, each at most once, until the share is used up; at least one."""
        until_ns = self._clock.monotonic_ns() + SHARE_NS
        for _ in range(len(self.links)):
            link = self.links.popleft()
            events, link.events_put_off = link.events_put_off, 0
            self._on_turn(link, events)
            if self._clock.monotonic_ns() >= until_ns:
                return
