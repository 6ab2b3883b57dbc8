"""`ThrottledConnections`: connections whose reading is paused because their clients are above a quota (KIP-219).

A response carries the throttle time, and for as long the connection is not read, whether the client waits or not.
Requests in progress still get their responses, in order, and may extend the throttle time; never shorten it.

Source: ThrottledChannel and ClientQuotaManager's ThrottledChannelReaper of Apache Kafka 4.3.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from ottla.network.connection import Connection
from ottla.ports import ConnectionId

_OUTDATED_MIN: Final = 64


class ThrottledConnections:
    """The throttled connections of a node; ``on_over`` receives a connection whose throttle time has passed."""

    def __init__(self, on_over: Callable[[Connection], None]) -> None:
        self._on_over = on_over
        self._throttled: dict[ConnectionId, tuple[int, Connection]] = {}
        self._due: list[tuple[int, ConnectionId]] = []

    def __len__(self) -> int:
        """Return how many connections are throttled."""
        return len(self._throttled)

    def is_throttled(self, connection: ConnectionId) -> bool:
        """Return whether ``connection`` is throttled now."""
        return connection in self._throttled

    def throttle(self, connection: Connection, until_ms: int) -> None:
        """Throttle ``connection`` until ``until_ms``; the caller pauses reading."""
        number = connection.info.connection
        before = self._throttled.get(number)
        if before is not None and before[0] >= until_ms:
            return
        connection.is_blocked = connection.is_throttled = True
        self._throttled[number] = until_ms, connection
        if len(self._due) > 2 * len(self._throttled) + _OUTDATED_MIN:
            self._due = [(each_ms, each) for each, (each_ms, _) in self._throttled.items()]
            heapify(self._due)
        else:
            heappush(self._due, (until_ms, number))

    def remove(self, connection: ConnectionId) -> None:
        """Remove a connection that has ended; no error if it is not throttled."""
        self._throttled.pop(connection, None)

    def tick(self, now_ms: int) -> None:
        """Resume connections whose throttle time has passed."""
        while self._due and self._due[0][0] <= now_ms:
            until_ms, number = heappop(self._due)
            muted = self._throttled.get(number)
            if muted is not None and muted[0] == until_ms:
                del self._throttled[number]
                muted[1].is_throttled = False
                self._on_over(muted[1])

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None
