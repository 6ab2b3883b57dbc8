"""`RequestMemories`: assigns a `RequestMemory` to each connection, and closes connections that hold memory too long.

Clients share one, of ``queued.max.request.bytes``, and another until they are authenticated. The controllers' and the
inter-broker listeners have their own, without limit: many clients must not stop the cluster. While frames wait,
connections that hold memory and send too slowly are closed (`SlowConnections`).
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ottla.log_lines import LineLimit
from ottla.network.connection import Connection
from ottla.network.request_memory import NO_LIMIT_BYTES, RequestMemory
from ottla.network.slow_connections import SlowConnections
from ottla.ports import Clock, Network

logger = logging.getLogger(__name__)

_SLOW_CHECK_INTERVAL_MS: Final = 1_000
_WAITS_LOG_INTERVAL_MS: Final = 60_000
_UNAUTHENTICATED_MEMORY_BYTES: Final = 32 * 1024 * 1024
"""For frames of all connections that are not authenticated yet; small frames are handled in the scratch buffer.

Connections of privileged listeners have as much of their own.
"""


class RequestMemories:
    """The request memories of a node.

    Args of the constructor:
        read_bytes_max: maximum of bytes that one read brings beyond the requested frame.
        connections: returns all connections of the node.
        on_end: closes a connection.
    """

    def __init__(
        self,
        *,
        limit_bytes: int,
        read_bytes_max: int,
        privileged_listeners: frozenset[str],
        clock: Clock,
        network: Network,
        connections: Callable[[], Iterable[Connection]],
        on_end: Callable[[Connection], None],
    ) -> None:
        self._read_bytes_max = read_bytes_max
        self._privileged_listeners = privileged_listeners
        self._clock = clock
        self._network = network
        self._connections = connections
        self._on_end = on_end
        self.clients = self._new_memory(limit_bytes)
        self._privileged = self._new_memory(NO_LIMIT_BYTES)
        self.unauthenticated = self._new_memory(_UNAUTHENTICATED_MEMORY_BYTES)
        self._privileged_unauthenticated = self._new_memory(_UNAUTHENTICATED_MEMORY_BYTES)
        self._all_unauthenticated = (self.unauthenticated, self._privileged_unauthenticated)
        self._slow_connections = {memory: SlowConnections() for memory in (self.clients, *self._all_unauthenticated)}
        self.is_awaited = False
        """Whether a frame waited at the last check or has started to wait since: then `tick` has work."""
        self.next_check_ms = 0
        self._wait_lines = LineLimit(clock, interval_ms=_WAITS_LOG_INTERVAL_MS)
        self._unauthenticated_wait_lines = LineLimit(clock, interval_ms=_WAITS_LOG_INTERVAL_MS)
        self._slow_lines = LineLimit(clock)
        self.closed_as_slow = 0

    @property
    def unauthenticated_use(self) -> tuple[int, int]:
        """Bytes held by frames before authentication, and how often one had to wait for memory."""
        memories = self._all_unauthenticated
        return sum(it.held_bytes for it in memories), sum(it.waits for it in memories)

    def memory_of(self, listener: str, *, is_authenticated: bool = True) -> "RequestMemory[Connection]":
        """Return the memory of connections at ``listener``; they have another until their SASL exchange is complete."""
        is_privileged = listener in self._privileged_listeners
        if not is_authenticated:
            return self._privileged_unauthenticated if is_privileged else self.unauthenticated
        return self._privileged if is_privileged else self.clients

    def tick(self, now_ms: int) -> None:
        """Close slow connections while others wait for memory."""
        if self.is_awaited and now_ms >= self.next_check_ms:
            self.next_check_ms = now_ms + _SLOW_CHECK_INTERVAL_MS
            self.is_awaited = any(memory.is_awaited for memory in self._slow_connections)
            for memory, slow_connections in self._slow_connections.items():
                if memory.is_awaited:
                    self._close_slow(memory, slow_connections, now_ms)

    def _new_memory(self, limit_bytes: int) -> "RequestMemory[Connection]":
        return RequestMemory(
            limit_bytes=limit_bytes,
            read_bytes_max=self._read_bytes_max,
            on_wait=self._on_wait,
            on_granted=self._on_granted,
        )

    def _on_wait(self, state: Connection) -> None:
        self._network.pause_reading(state.info.connection)
        self.is_awaited = True
        for memory, slow_connections in self._slow_connections.items():
            if memory.waiter_count == 1 and state.is_bounded_by(memory):
                slow_connections.reset()
        if state.is_bounded_by(self.clients):
            self._log_wait(state, self.clients, self._wait_lines, "a request", "queued.max.request.bytes=")
        for memory in self._all_unauthenticated:
            if state.is_bounded_by(memory):
                self._log_wait(
                    state,
                    memory,
                    self._unauthenticated_wait_lines,
                    "a request before authentication",
                    "the limit before authentication: ",
                )

    def _log_wait(
        self, state: Connection, memory: "RequestMemory[Connection]", lines: LineLimit, what: str, bound: str
    ) -> None:
        if lines.take_permit():
            logger.warning(
                "%s from %s on %s waits for memory: requests of %d connections hold %d bytes of %s%d, %d wait; "
                "requests had to wait %d times so far",
                what,
                state.info.peer,
                state.info.listener,
                sum(other.held_bytes > 0 and other.is_bounded_by(memory) for other in self._connections()),
                memory.held_bytes,
                bound,
                memory.limit_bytes,
                memory.waiter_count,
                memory.waits,
            )

    def _on_granted(self, state: Connection) -> None:
        state.memory_granted()
        state.last_active_ms = self._clock.monotonic_ms()
        # A blocked connection is read again when its peer has read its responses.
        if not state.is_blocked:
            self._network.resume_reading(state.info.connection)

    def _close_slow(self, memory: "RequestMemory[Connection]", slow_connections: SlowConnections, now_ms: int) -> None:
        holders = [
            state
            for state in self._connections()
            if state.held_bytes and not state.is_waiting and state.is_bounded_by(memory)
        ]
        for state, reason in slow_connections.find(holders, now_ms):
            # Closing one may have granted memory to all that waited: then the others may keep theirs.
            if memory.is_awaited:
                self.closed_as_slow += 1
                logger.log(
                    logging.WARNING if self._slow_lines.take_permit() else logging.DEBUG,
                    "closing connection from %s on %s: %s (%d closed for such reasons so far)",
                    state.info.peer,
                    state.info.listener,
                    reason,
                    self.closed_as_slow,
                )
                self._on_end(state)
