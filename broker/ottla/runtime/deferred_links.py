"""`DeferredLinks`: links with more work than fits into one iteration of the loop.

A client that pipelines requests, or reads hundreds of megabytes, always has an event pending. If all of that work were
done when the selector reports it, a client with one small request would wait for every such connection. Hence it is
deferred behind all other events: a tenth of a millisecond per iteration, round-robin over the links.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.ports import Clock
from ottla.runtime.link import Link

SLICE_NS: Final = 100_000
"""Per iteration. With five times as much, other clients waited about twice as long (benchmarks/RESULTS.md)."""


class DeferredLinks:
    """Round-robin queue of deferred links; while ``links`` is empty, `serve_slice` has no work.

    Args of the constructor:
        on_slice: serves a link with its deferred events; the link may have been closed meanwhile.
    """

    __slots__ = ("_clock", "_on_slice", "links")

    def __init__(self, clock: Clock, on_slice: Callable[[Link, int], None]) -> None:
        self._clock = clock
        self._on_slice = on_slice
        self.links: deque[Link] = deque()

    def add(self, link: Link, events: int) -> None:
        """Defer ``events`` of ``link``, in addition to those that are already deferred."""
        if not link.deferred_events:
            self.links.append(link)
        link.deferred_events |= events

    def serve_slice(self) -> None:
        """Serve links, each at most once, until the time slice is used up; at least one."""
        until_ns = self._clock.monotonic_ns() + SLICE_NS
        for _ in range(len(self.links)):
            link = self.links.popleft()
            events, link.deferred_events = link.deferred_events, 0
            self._on_slice(link, events)
            if self._clock.monotonic_ns() >= until_ns:
                return
