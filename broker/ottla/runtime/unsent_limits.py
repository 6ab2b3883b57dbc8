"""`UnsentLimits`: limits on memory and time of connections whose peers do not read their queued responses.

Each connection has its own bound above which it is not served (`reactor`), but there may be many of them. A second
bound is on their total memory: above it, connections whose peers have read nothing for the longest are closed first,
among those with enough memory to be worth it. In addition, a peer that reads nothing for connections.max.idle.ms is
disconnected like an idle one. Bytes of files are not in memory, and count only for the time limit. A buffer shared by
several connections, such as Metadata of a large topic, counts for each of them.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ottla.log_lines import LineLimit
from ottla.metrics.network import NetworkMetrics
from ottla.ports import Clock, ConnectionId
from ottla.runtime.link import Link, SocketOptions, peer_of

logger = logging.getLogger(__name__)

_CLOSES_PER_ITERATION: Final = 32
_WORTH_CLOSING_BYTES: Final = 16 * 1024
"""A consumer that reads its records holds less, only the headers between bytes of files: closing it frees nothing."""


class UnsentLimits:
    """Links with unsent data, least recently read first; while ``links`` is empty, `enforce` has no work.

    Args of the constructor:
        on_give_up: closes a link; receives the reason.
    """

    def __init__(
        self, clock: Clock, options: SocketOptions, metrics: NetworkMetrics, on_give_up: Callable[[Link, str], None]
    ) -> None:
        self._clock = clock
        self._options = options
        self._metrics = metrics
        self._on_give_up = on_give_up
        self.links: OrderedDict[ConnectionId, tuple[Link, int]] = OrderedDict()
        """With the time at which the peer last read something, or data was first queued; the oldest comes first."""
        self._lines = LineLimit(clock)

    def update(self, link: Link, *, has_moved: bool) -> None:
        """Update the unsent bytes of ``link``; ``has_moved``: its peer may have read something."""
        self._metrics.unread_bytes += link.memory_bytes - link.unread_bytes
        link.unread_bytes = link.memory_bytes
        if not link.has_unsent:
            self.links.pop(link.id, None)
        elif has_moved or link.id not in self.links:
            self.links[link.id] = link, self._clock.monotonic_ms()
            self.links.move_to_end(link.id)

    def remove(self, link: Link) -> None:
        """Remove a closed connection, whose memory is free."""
        self._metrics.unread_bytes -= link.unread_bytes
        link.unread_bytes = 0
        self.links.pop(link.id, None)

    def next_deadline_ms(self) -> int | None:
        if not self.links:
            return None
        _, since_ms = next(iter(self.links.values()))
        return since_ms + self._options.idle_ms_max

    def enforce(self) -> None:
        """Close connections that exceed a limit, some per call."""
        for _ in range(min(len(self.links), _CLOSES_PER_ITERATION)):
            is_full = self._metrics.unread_bytes > self._options.unread_bytes_max
            link, since_ms = self._first_to_free_memory() if is_full else next(iter(self.links.values()))
            waited_ms = self._clock.monotonic_ms() - since_ms
            if is_full:
                bound = f"all connections together hold more than {self._options.unread_bytes_max} bytes of them"
                self._give_up(link, waited_ms, "memory", bound)
            elif waited_ms >= self._options.idle_ms_max:
                self._give_up(link, waited_ms, "idle", f"connections.max.idle.ms={self._options.idle_ms_max}")
            else:
                return

    def _first_to_free_memory(self) -> tuple[Link, int]:
        for least_bytes in (_WORTH_CLOSING_BYTES, 1):
            for link, since_ms in self.links.values():
                if link.unread_bytes >= least_bytes:
                    return link, since_ms
        return next(iter(self.links.values()))

    def _give_up(self, link: Link, waited_ms: int, reason: str, bound: str) -> None:
        self._metrics.closed_unread[reason] += 1
        message = (
            f"its peer has read none of its {link.outbox_bytes} bytes of responses for {waited_ms} ms, and {bound}"
        )
        if self._lines.take_permit():
            total = self._metrics.closed_unread.total()
            logger.warning("closing connection from %s: %s (%d closed so far)", peer_of(link.sock), message, total)
        self._on_give_up(link, message)
