"""`PeerNames`: resolves the host names of other nodes ahead, so that a node can connect to each without a name server.

A voter may never have connected to another one before the leader fails, and name servers may fail with it. The
addresses are as old as those that a JVM keeps by default (networkaddress.cache.ttl).
"""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.ports import Network
from ottla.types import Endpoint

ROUND_MS: Final = 30_000
SPACING_MS: Final = 100
"""Between two names: a name is resolved on a thread of its own, and a cluster may have a hundred nodes."""


class PeerNames:
    """See the module; a part of the node. ``endpoints`` returns those of all other nodes, as far as they are known."""

    def __init__(self, network: Network, endpoints: Callable[[], Iterable[Endpoint]]) -> None:
        self._network = network
        self._endpoints = endpoints
        self._left: list[Endpoint] = []
        self._round_ends_ms = 0
        self._due_ms = 0

    def tick(self, now_ms: int) -> int | None:
        if now_ms < self._due_ms:
            return self._due_ms
        if not self._left and now_ms >= self._round_ends_ms:
            # One of each host: its name has the same addresses for every port.
            self._left = list({each.host: each for each in self._endpoints()}.values())
            self._round_ends_ms = now_ms + ROUND_MS
        if self._left:
            self._network.resolve_ahead(self._left.pop())
        self._due_ms = now_ms + SPACING_MS if self._left else self._round_ends_ms
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return self._due_ms
