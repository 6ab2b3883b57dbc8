"""`MemoryGuard`: closes the clients that hold most memory when a node comes near its memory limit (OOM kill).

Once a second the node compares its memory use with the limit of its control group. Above 90 % it first releases pooled
memory; if that is not enough, it closes the largest fetch session and the client connections that hold most, largest
first, until the excess is freed. Connections of other nodes stay open, as do those that hold little: closing them would
free nothing. Each such second is logged in one line.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla.handlers.services import Services
from ottla.log_lines import LineLimit
from ottla.metrics.network import NetworkMetrics
from ottla.network.connection_manager import ConnectionManager
from ottla.ports import Clock, Memory, MemoryUse

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1_000
_SHARE_PERCENT: Final = 90
"""Of the limit; the rest is for bytes received within a second, and for memory that this process does not count."""
_CLOSINGS_PER_CHECK: Final = 64
_LEAST_BYTES: Final = 64 * 1024
_LARGE_SESSION_PARTITIONS: Final = 1_000
_LINE_INTERVAL_MS: Final = 60_000


class MemoryGuard:
    """Periodic check of a node's memory use.

    Args of the constructor:
        drop_pooled_buffers: frees pooled buffers.
        largest_clients: receives a maximum count and a minimum of bytes; returns the clients' connections that hold
            most, largest first: the bytes of each, and a function that closes it at once.
        close_session: closes the largest fetch session, if it is large; returns its number of partitions, or 0.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        memory: Memory,
        metrics: NetworkMetrics,
        drop_pooled_buffers: Callable[[], None],
        largest_clients: Callable[[int, int], list[tuple[int, Callable[[], None]]]],
        close_session: Callable[[], int],
    ) -> None:
        self._memory = memory
        self._metrics = metrics
        self._drop_pooled_buffers = drop_pooled_buffers
        self._largest_clients = largest_clients
        self._close_session = close_session
        self._due_ms = clock.monotonic_ms() + INTERVAL_MS
        self._has_limit = memory.use() is not None
        self._idle_lines = LineLimit(clock, interval_ms=_LINE_INTERVAL_MS)

    def tick(self, now_ms: int) -> int | None:
        """Check once a second; return when the next check is due, None if there is no limit."""
        if not self._has_limit:
            return None
        if now_ms >= self._due_ms:
            self._due_ms = now_ms + INTERVAL_MS
            self._check()
        return self._due_ms

    def next_deadline_ms(self) -> int | None:
        return self._due_ms if self._has_limit else None

    def _check(self) -> None:
        if self._excess_bytes(self._memory.use()) <= 0:
            return
        self._drop_pooled_buffers()
        self._memory.release()
        use = self._memory.use()
        excess_bytes = self._excess_bytes(use)
        if use is None or excess_bytes <= 0:
            return
        partitions = self._close_session()
        freed = []
        for held_bytes, abort in self._largest_clients(_CLOSINGS_PER_CHECK, _LEAST_BYTES):
            abort()
            freed.append(held_bytes)
            if sum(freed) >= excess_bytes:
                break
        self._memory.release()
        self._metrics.closed_for_memory += len(freed)
        if freed or partitions:
            logger.warning(
                "memory is short, %d of %d bytes are used: closed the %d largest connections (%d bytes) and "
                "fetch sessions of %d partitions; %d connections closed so far",
                *use,
                len(freed),
                sum(freed),
                partitions,
                self._metrics.closed_for_memory,
            )
        elif self._idle_lines.take_permit():
            logger.warning(
                "memory is short, %d of %d bytes are used, and no client's connection holds much of it: raise the "
                "node's memory limit, or reduce its partitions and connections",
                *use,
            )

    def _excess_bytes(self, use: MemoryUse | None) -> int:
        return 0 if use is None else use.used_bytes - use.limit_bytes * _SHARE_PERCENT // 100


def guard_memory(
    memory: Memory, connections: ConnectionManager, services: Services, metrics: NetworkMetrics
) -> MemoryGuard:
    """Return the memory guard for these connections and fetch sessions."""
    return MemoryGuard(
        clock=services.clock,
        memory=memory,
        metrics=metrics,
        drop_pooled_buffers=connections.drop_pooled_buffers,
        largest_clients=partial(connections.largest_clients, memory),
        close_session=partial(services.fetch_sessions.close_largest, partitions_min=_LARGE_SESSION_PARTITIONS),
    )
