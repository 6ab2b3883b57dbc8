"""`ClientDisconnect`: ends the connections of clients, some per tick, so that they look for other brokers."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ottla.network.connection import Connection

_PER_TICK: Final = 50


class ClientDisconnect:
    """See the module; ``on_due`` receives each connection that is still open when its turn comes."""

    def __init__(self, on_due: Callable[[Connection], None]) -> None:
        self._on_due = on_due
        self._waiting: deque[Connection] = deque()

    def add(self, connections: Iterable[Connection]) -> None:
        self._waiting.extend(connections)

    def tick(self, now_ms: int) -> None:
        for _ in range(min(len(self._waiting), _PER_TICK)):
            connection = self._waiting.popleft()
            if not connection.is_closed:
                self._on_due(connection)

    def next_deadline_ms(self) -> int | None:
        return 0 if self._waiting else None
