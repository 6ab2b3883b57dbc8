"""`Unread`: connections whose peers do not take what is queued for them, within bounds of memory and of time.

Each has a bound of its own above which it is not served (`reactor`), but there may be any number of them. Together they
hold so much and no more: above it those whose peers have not taken a byte for the longest are closed first, of those
that hold enough to be worth it. And whoever takes nothing for as long as an idle connection may last is closed like
one. Bytes of files are not in memory, and count only for the latter. Those that several peers wait for, of Metadata
about a large topic, count for each of them.
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

_CLOSINGS_PER_TURN: Final = 32
_WORTH_CLOSING_BYTES: Final = 16 * 1024
"""A consumer that is at its records holds less, the little between bytes of files: to close it would free nothing."""


class Unread:
    """See the module; ``links`` is empty where `turn` has nothing to do.

    Args of the constructor:
        on_give_up: gets a link that is to be closed, and why.
    """

    def __init__(
        self, clock: Clock, options: SocketOptions, metrics: NetworkMetrics, on_give_up: Callable[[Link, str], None]
    ) -> None:
        self._clock = clock
        self._options = options
        self._metrics = metrics
        self._on_give_up = on_give_up
        self.links: OrderedDict[ConnectionId, tuple[Link, int]] = OrderedDict()
        """With the moment at which the peer took something, or should have begun to; the longest ago comes first."""
        self._lines = LineLimit(clock)

    def note(self, link: Link, *, has_moved: bool) -> None:
        """Take in what is queued for ``link`` now; ``has_moved``: its peer may have taken something."""
        self._metrics.unread_bytes += link.memory_bytes - link.unread_bytes
        link.unread_bytes = link.memory_bytes
        if not link.has_unsent:
            self.links.pop(link.id, None)
        elif has_moved or link.id not in self.links:
            self.links[link.id] = link, self._clock.monotonic_ms()
            self.links.move_to_end(link.id)

    def forget(self, link: Link) -> None:
        """The connection is closed, and its memory free."""
        self._metrics.unread_bytes -= link.unread_bytes
        link.unread_bytes = 0
        self.links.pop(link.id, None)

    def next_deadline_ms(self) -> int | None:
        if not self.links:
            return None
        _, since_ms = next(iter(self.links.values()))
        return since_ms + self._options.idle_ms_max

    def turn(self) -> None:
        """Close whoever is above a bound, some at a time."""
        for _ in range(min(len(self.links), _CLOSINGS_PER_TURN)):
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
        words = (
            f"its peer has taken none of the {link.outbox_bytes} bytes of its answers for {waited_ms} ms, and {bound}"
        )
        if self._lines.take_permit():
            total = self._metrics.closed_unread.total()
            logger.warning("closing connection from %s: %s (%d closed so far)", peer_of(link.sock), words, total)
        self._on_give_up(link, words)
