"""All client connections of a node: let in within limits, served by the pipeline, closed when idle too long.

Source: SocketServer and ConnectionQuotas of Apache Kafka 4.3.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.errors import ProtocolError
from ottla.handlers.api import ConnectionInfo, ListenerRole
from ottla.handlers.services import Services
from ottla.ports import ConnectionId, Network
from ottla.server.buffer_pool import BufferPool
from ottla.server.connection import Connection
from ottla.server.pipeline import Pipeline, Route
from ottla.types import Endpoint, NodeId, Offset

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 256 * 1024
_IDLE_CHECK_INTERVAL_MS = 10_000
_REFUSALS_LOG_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayConfig:
    """Limits, by the keys of ``server.properties``."""

    request_size_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = 2**31 - 1
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_ms_max: int = 600_000


class Gateway:
    """See the module.

    Args of the constructor:
        roles: of each listener, whether brokers' or controllers' APIs are served there.
        on_heartbeats_ended: told of a broker, by id and epoch, whose heartbeats came over a connection that has ended.
    """

    def __init__(
        self,
        *,
        services: Services,
        network: Network,
        config: GatewayConfig,
        roles: Mapping[str, ListenerRole],
        security_protocols: Mapping[str, str],
        on_heartbeats_ended: Callable[[NodeId, Offset], None],
    ) -> None:
        self._services = services
        self._network = network
        self.config = config
        self._roles = roles
        self._security_protocols = security_protocols
        self._on_heartbeats_ended = on_heartbeats_ended
        self._pool = BufferPool()
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._pipeline = Pipeline(services, network, on_close=self._close)
        self._connections: dict[ConnectionId, Connection] = {}
        self._per_ip: Counter[str] = Counter()
        self.open_by_listener: Counter[str] = Counter()
        self._next_idle_check_ms = services.clock.monotonic_ms() + _IDLE_CHECK_INTERVAL_MS
        self._refusals_silent_until_ms = 0
        self.refused = 0
        self.closed_for_protocol_errors = 0
        self.accepted_total = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    @property
    def routes(self) -> list[Route]:
        return self._pipeline.routes

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint) -> bool:
        """Take a new connection in; False when a limit is reached."""
        limit = self.config.connections_per_ip_overrides.get(peer.host, self.config.connections_per_ip_max)
        if len(self._connections) >= self.config.connections_max or self._per_ip[peer.host] >= limit:
            self._refuse(peer, listener, limit)
            return False
        info = ConnectionInfo(
            connection=connection,
            peer=peer,
            listener=listener,
            role=self._roles[listener],
            security_protocol=self._security_protocols[listener],
            dialled=dialled,
        )
        self._connections[connection] = Connection(
            info,
            scratch=self._scratch,
            pool=self._pool,
            frame_size_bytes_max=self.config.request_size_bytes_max,
            on_frame=self._pipeline.on_frame,
            now_ms=self._services.clock.monotonic_ms(),
        )
        self._per_ip[peer.host] += 1
        self.open_by_listener[listener] += 1
        self.accepted_total += 1
        return True

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._connections[connection].receive_buffer()

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        state = self._connections[connection]
        try:
            state.received(size_bytes)
        except ProtocolError as error:
            self._close(state, str(error))

    def drained(self, connection: ConnectionId) -> None:
        state = self._connections.get(connection)
        if state is not None:
            self._pipeline.drained(state)

    def closed(self, connection: ConnectionId, reason: str) -> None:
        """The peer is gone."""
        state = self._connections.get(connection)
        if state is not None:
            logger.debug("connection from %s on %s ended: %s", state.info.peer, state.info.listener, reason)
            self._forget(state)

    def tick(self, now_ms: int) -> None:
        """Close connections that have been silent for too long."""
        if now_ms < self._next_idle_check_ms:
            return
        self._next_idle_check_ms = now_ms + _IDLE_CHECK_INTERVAL_MS
        oldest_ms = now_ms - self.config.idle_ms_max
        for state in [state for state in self._connections.values() if state.last_active_ms < oldest_ms]:
            if not state.is_blocked:
                logger.debug("closing connection from %s: idle for %d ms", state.info.peer, self.config.idle_ms_max)
                self._forget(state)
                self._network.close_connection(state.info.connection)

    def next_deadline_ms(self) -> int | None:
        return self._next_idle_check_ms if self._connections else None

    def _refuse(self, peer: Endpoint, listener: str, limit: int) -> None:
        """Count a refusal; log at most one a second, so that a flood of connections is not a flood of lines."""
        self.refused += 1
        now_ms = self._services.clock.monotonic_ms()
        if now_ms >= self._refusals_silent_until_ms:
            self._refusals_silent_until_ms = now_ms + _REFUSALS_LOG_INTERVAL_MS
            logger.warning(
                "refused a connection from %s on %s: %d open in all (max.connections=%d), %d from there "
                "(max.connections.per.ip=%d); %d refused so far",
                peer,
                listener,
                len(self._connections),
                self.config.connections_max,
                self._per_ip[peer.host],
                limit,
                self.refused,
            )

    def _close(self, state: Connection, reason: str) -> None:
        """End a connection that broke the rules; one line says whose and why."""
        if state.is_closed:
            return
        self.closed_for_protocol_errors += 1
        logger.warning("closing connection from %s on %s: %s", state.info.peer, state.info.listener, reason)
        self._forget(state)
        self._network.close_connection(state.info.connection)

    def _forget(self, state: Connection) -> None:
        state.close()
        del self._connections[state.info.connection]
        self.open_by_listener[state.info.listener] -= 1
        self._per_ip[state.info.peer.host] -= 1
        if not self._per_ip[state.info.peer.host]:
            del self._per_ip[state.info.peer.host]
        if state.info.heartbeats_of is not None:
            self._on_heartbeats_ended(*state.info.heartbeats_of)
