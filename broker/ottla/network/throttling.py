"""`ThrottledConnections`: connections that are not read for a while, because their clients are above a quota (KIP-219).

An answer tells a client how long to wait, and for as long nothing of it is read, whether it waits or not. Requests that
are in hand already are answered, in order, and may make it longer; never shorter. A connection that ends is forgotten.

Source: ThrottledChannel and ClientQuotaManager's ThrottledChannelReaper of Apache Kafka 4.3.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

from ottla.network.connection import Connection
from ottla.ports import ConnectionId

_OUTDATED_MIN: Final = 64


class ThrottledConnections:
    """The muted connections of a node; ``on_over`` is told of one whose time has passed."""

    def __init__(self, on_over: Callable[[Connection], None]) -> None:
        self._on_over = on_over
        self._muted: dict[ConnectionId, tuple[int, Connection]] = {}
        self._due: list[tuple[int, ConnectionId]] = []

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._muted)

    def holds(self, connection: ConnectionId) -> bool:
        """Return whether it is muted now."""
        return connection in self._muted

    def mute(self, connection: Connection, until_ms: int) -> None:
        """Have nothing read from ``connection`` until then; the caller pauses reading."""
        number = connection.info.connection
        before = self._muted.get(number)
        if before is not None and before[0] >= until_ms:
            return
        connection.is_blocked = connection.is_muted = True
        self._muted[number] = until_ms, connection
        if len(self._due) > 2 * len(self._muted) + _OUTDATED_MIN:
            self._due = [(each_ms, each) for each, (each_ms, _) in self._muted.items()]
            heapify(self._due)
        else:
            heappush(self._due, (until_ms, number))

    def forget(self, connection: ConnectionId) -> None:
        """The connection has ended; no error when it was not muted."""
        self._muted.pop(connection, None)

    def tick(self, now_ms: int) -> None:
        """Let those go on whose time has passed."""
        while self._due and self._due[0][0] <= now_ms:
            until_ms, number = heappop(self._due)
            muted = self._muted.get(number)
            if muted is not None and muted[0] == until_ms:
                del self._muted[number]
                muted[1].is_muted = False
                self._on_over(muted[1])

    def next_deadline_ms(self) -> int | None:
        return self._due[0][0] if self._due else None
