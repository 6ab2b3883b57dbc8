"""`ConnectionManager`: all client connections of a node: accepted within limits, served, closed when idle.

Limits apply to their number and to the total memory of their requests. The controllers' and the inter-broker listeners
are exempt, so that a connection storm of clients cannot stop the cluster.

Source: SocketServer and ConnectionQuotas of Apache Kafka 4.3.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import nlargest
from operator import itemgetter

from ottla.errors import ProtocolError
from ottla.handlers.api import ConnectionInfo, ListenerRole
from ottla.handlers.services import Services
from ottla.log_lines import LineLimit
from ottla.metadata.scram import ScramImage
from ottla.network.authentication import Authentication
from ottla.network.buffer_pool import BufferPool
from ottla.network.client_disconnect import ClientDisconnect
from ottla.network.connection import Connection
from ottla.network.large_requests import LargeRequests
from ottla.network.pipeline import Pipeline
from ottla.network.request_memories import RequestMemories
from ottla.network.routes import Route
from ottla.network.step_runner import StepRunner
from ottla.network.throttling import ThrottledConnections
from ottla.ports import ConnectionId, KeySource, Memory, Network
from ottla.quoting import one_line, quoted
from ottla.security.principal_mapping import NoMatchingRuleError, PrincipalMapping
from ottla.types import Endpoint, NodeId, Offset
from ottla.wire.codec.primitives import STRING_BYTES_MAX

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 256 * 1024
_IDLE_CHECK_INTERVAL_MS = 10_000
_CHECKS_PER_TICK = 1_000
_CLOSINGS_PER_TICK = 32
"""Of idle connections; closing thousands at once would delay other connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits, by the keys of ``server.properties``."""

    request_size_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = 2**31 - 1
    """Counts all connections; those of ``privileged_listeners`` are accepted beyond it."""
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_ms_max: int = 600_000
    request_memory_bytes_max: int = 256 * 1024 * 1024
    """Over all connections except those of ``privileged_listeners``; both are fixed when the node starts."""
    privileged_listeners: frozenset[str] = frozenset()


class ConnectionManager:
    """Client connections of a node.

    Args of the constructor:
        roles: by listener, whether it serves brokers' or controllers' APIs.
        scram: returns the current SCRAM credentials; None: those of the newest metadata.
        principal_mappings: of the listeners whose clients are identified by their certificates.
        key_source: fetches the keys that verify tokens.
        on_heartbeats_ended: receives id and epoch of a broker whose heartbeat connection has ended.
        on_follower_ended: receives the id of a broker whose fetch connection has ended.
    """

    def __init__(
        self,
        *,
        services: Services,
        network: Network,
        config: ConnectionLimits,
        roles: Mapping[str, ListenerRole],
        security_protocols: Mapping[str, str],
        principal_mappings: Mapping[str, PrincipalMapping],
        on_heartbeats_ended: Callable[[NodeId, Offset], None],
        on_follower_ended: Callable[[NodeId], None],
        scram: Callable[[], ScramImage] | None = None,
        key_source: KeySource | None = None,
    ) -> None:
        self._services = services
        self._network = network
        self.config = config
        self._roles = roles
        self._security_protocols = security_protocols
        self._principal_mappings = principal_mappings
        self._on_heartbeats_ended = on_heartbeats_ended
        self._on_follower_ended = on_follower_ended
        self._pool = BufferPool()
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._connections: dict[ConnectionId, Connection] = {}
        self.memories = RequestMemories(
            limit_bytes=config.request_memory_bytes_max,
            read_bytes_max=_SCRATCH_BYTES,
            privileged_listeners=config.privileged_listeners,
            clock=services.clock,
            network=network,
            connections=self._connections.values,
            on_end=self._end,
        )
        self.authentication = self._new_authentication(scram or self._newest_scram, key_source)
        self._pipeline = Pipeline(
            services, network, on_close=self._close, privileged_listeners=config.privileged_listeners
        )
        self._delayed_closes = ThrottledConnections(on_over=self._end)
        """Connections above the rate of their address."""
        self._client_disconnect = ClientDisconnect(on_due=partial(self._end, at_once=True))
        self._timed = (
            self.authentication,
            self._pipeline.flow.throttled,
            self._delayed_closes,
            self._client_disconnect,
        )
        self._has_caught_up = False
        self._serves_clients = False
        self._per_ip: Counter[str] = Counter()
        self.open_by_listener: Counter[str] = Counter()
        self._to_check: deque[Connection] = deque()
        """Connections that the current idle check has not examined yet."""
        self._next_idle_check_ms = services.clock.monotonic_ms() + _IDLE_CHECK_INTERVAL_MS
        self._rejection_lines = LineLimit(services.clock)
        self._closing_lines = LineLimit(services.clock)
        self._idle_lines = LineLimit(services.clock)
        self.closed_idle = 0
        self.rejected = 0
        self.closed_for_protocol_errors = 0
        self.accepted_total = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    @property
    def muted(self) -> int:
        """Number of connections that are not read because of a quota, including those to be closed."""
        return len(self._pipeline.flow.throttled) + len(self._delayed_closes)

    @property
    def routes(self) -> list[Route]:
        return self._pipeline.routes

    def accepted(
        self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint | None
    ) -> bool:
        """Accept a new connection; return False if a limit is reached, or the broker's metadata is not caught up."""
        if not self._serves_clients and self._roles[listener] is ListenerRole.BROKER:
            self._serves_clients = self._has_caught_up and bool(self._services.metadata.alive_brokers())
            if not self._serves_clients:
                return False
        is_privileged = listener in self.config.privileged_listeners
        close_after_ms = self._count_connection(listener, peer.host, is_privileged=is_privileged)
        limit = self.config.connections_per_ip_overrides.get(peer.host, self.config.connections_per_ip_max)
        is_full = len(self._connections) >= self.config.connections_max and not is_privileged
        if is_full or self._per_ip[peer.host] >= limit:
            self._reject(peer, listener, limit)
            return False
        info = ConnectionInfo(
            connection=connection,
            peer=peer,
            listener=listener,
            role=self._roles[listener],
            security_protocol=self._security_protocols[listener],
            local_address=local_address,
        )
        sasl = self.authentication.listeners.get(listener)
        state = Connection(
            info,
            scratch=self._scratch,
            pool=self._pool,
            memory=self.memories.memory_of(listener, is_authenticated=sasl is None),
            frame_size_bytes_max=self.config.request_size_bytes_max if sasl is None else sasl.receive_bytes_max,
            on_frame=self._pipeline.on_frame,
            scheduler=self._pipeline.flow.scheduler,
            now_ms=self._services.clock.monotonic_ms(),
        )
        self._connections[connection] = state
        self.authentication.start(state)
        self._per_ip[peer.host] += 1
        self.open_by_listener[listener] += 1
        self.accepted_total += 1
        if close_after_ms > 0:
            self._delayed_closes.throttle(state, self._services.clock.monotonic_ms() + close_after_ms)
            self._network.pause_reading(connection)
        return True

    def _count_connection(self, listener: str, host: str, *, is_privileged: bool) -> int:
        """Count a new connection for the rate limits; return the delay after which to close it, or 0."""
        rates = self._services.quotas.connection_rates
        if not rates.is_enabled:
            return 0
        now_ms = self._services.clock.monotonic_ms()
        wait_ms = rates.accept_wait_ms(listener, now_ms, is_privileged=is_privileged)
        if wait_ms > 0:
            self._network.pause_accepting(listener, wait_ms)
        return rates.close_after_ms(host, now_ms)

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """Set the principal after the TLS handshake; ``subject``: the distinguished name in the client's certificate.

        On a SASL_SSL listener the certificate does not identify the client.
        """
        state = self._connections[connection]
        mapping = self._principal_mappings.get(state.info.listener)
        if mapping is None:
            return
        try:
            principal = mapping.principal(subject)
        except NoMatchingRuleError as error:
            self._close(state, str(error))
            return
        if len(principal.encode()) > STRING_BYTES_MAX:
            # An Envelope request to the controller could not carry it.
            self._close(state, f"the subject of its certificate has {len(principal)} characters: {quoted(principal)}")
            return
        state.info.principal = principal

    def on_caught_up(self) -> None:
        """Accept connections to the broker's listeners once any broker is unfenced: the metadata is new enough.

        Before, responses would describe an empty or an old cluster. (Kafka's SocketServer opens these ports when the
        broker is unfenced. Here they are open from the start, which detects ports in use, and connections are closed.)
        """
        self._has_caught_up = True

    def on_unfenced(self) -> None:
        """Accept connections: this broker is unfenced, even if its metadata does not reflect it yet."""
        self._serves_clients = True

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._connections[connection].receive_buffer()

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        state = self._connections[connection]
        try:
            if state.received(size_bytes):
                # A partially received frame counts as activity, however long it takes.
                state.last_active_ms = self._services.clock.monotonic_ms()
        except ProtocolError as error:
            self._close(state, str(error))
        if state.awaits_slice and not state.is_closed:
            self._pipeline.flow.await_slice(state)
        # Appends of one read are fetched by the followers together.
        self._services.replicas.announce_appends()

    def drained(self, connection: ConnectionId) -> None:
        state = self._connections.get(connection)
        if state is not None:
            self._pipeline.flow.drained(state)

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether to serve the remaining requests of a peer that has hung up, which acks=0 producers expect.

        True if they wait for a slice, a quota or memory; False if they wait for a pending or an unread response.
        """
        state = self._connections.get(connection)
        return state is not None and state.awaits_service and not self._delayed_closes.is_throttled(connection)

    def closed(self, connection: ConnectionId, reason: str) -> None:
        """Remove a connection that its peer has closed."""
        state = self._connections.get(connection)
        if state is not None:
            logger.debug("connection from %s on %s ended: %s", state.info.peer, state.info.listener, one_line(reason))
            self._remove(state)

    def tick(self, now_ms: int) -> int | None:
        """Close connections that are idle for too long, or hold memory that others wait for.

        Return ``now_ms`` when something was due, else the value of `next_deadline_ms`.
        """
        if not self._has_pending_work:
            due_ms = self.next_deadline_ms()
            if due_ms is None or now_ms < due_ms:
                return due_ms
        for part in self._timed:
            part.tick(now_ms)
        self.run_slices()
        self.memories.tick(now_ms)
        if now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + _IDLE_CHECK_INTERVAL_MS
            self._to_check.extend(self._connections.values())
            self._services.quotas.evict_idle(now_ms)
        if self._to_check:
            self._close_idle(now_ms - self.config.idle_ms_max)
        return now_ms

    @property
    def steps(self) -> StepRunner:
        """Runner of requests in slices."""
        return self._pipeline.steps

    @property
    def large_requests(self) -> LargeRequests:
        return self._pipeline.large_requests

    @property
    def has_runnable_slices(self) -> bool:
        """Whether requests wait until others have been served."""
        return bool(self._pipeline.flow.scheduler or self._pipeline.steps)

    def run_slices(self) -> bool:
        """Run slices of started requests, and serve queued connections; return whether there were any."""
        has_run = self._pipeline.steps.run_slices()
        if not self._pipeline.flow.scheduler:
            return has_run
        self._pipeline.flow.scheduler.run_slices()
        return True

    @property
    def _has_pending_work(self) -> bool:
        """Whether there is work that does not depend on the clock: slices, or connections to check for idleness."""
        return bool(self.has_runnable_slices or self._to_check)

    def next_deadline_ms(self) -> int | None:
        if self._has_pending_work:
            return self._services.clock.monotonic_ms()
        due_ms = self._next_idle_check_ms if self._connections else None
        for part in self._timed:
            part_ms = part.next_deadline_ms()
            if part_ms is not None and (due_ms is None or part_ms < due_ms):
                due_ms = part_ms
        if due_ms is None or not self.memories.is_awaited:
            return due_ms
        return min(due_ms, self.memories.next_check_ms)

    # --- authentication ----------------------------------------------------------------------------------------------

    def _newest_scram(self) -> ScramImage:
        return self._services.metadata.image.scram

    def _new_authentication(self, scram: Callable[[], ScramImage], key_source: KeySource | None) -> Authentication:
        services = self._services
        return Authentication(
            listeners=services.config.sasl.listeners,
            failure_delay_ms=services.config.connection_failed_authentication_delay_ms,
            clock=services.clock,
            random=services.random,
            network=self._network,
            key_source=key_source,
            scram=scram,
            tokens=services.delegation_tokens,
            on_authenticated=lambda state: state.move_to(
                self.memories.memory_of(state.info.listener), frame_size_bytes_max=self.config.request_size_bytes_max
            ),
            on_close=self._close,
            on_end=self._end,
        )

    def _close_idle(self, oldest_ms: int) -> None:
        """Examine some of the connections that were open when the check started, and close idle ones."""
        closed = 0
        for _ in range(min(len(self._to_check), _CHECKS_PER_TICK)):
            state = self._to_check.popleft()
            if state.is_closed or state.last_active_ms >= oldest_ms:
                continue
            if not state.is_blocked and not state.is_waiting and not state.responses:
                self.closed_idle += 1
                level = logging.INFO if self._idle_lines.take_permit() else logging.DEBUG
                logger.log(
                    level,
                    "closing connection from %s on %s: silent for connections.max.idle.ms=%d (%d closed so far)",
                    state.info.peer,
                    state.info.listener,
                    self.config.idle_ms_max,
                    self.closed_idle,
                )
                self._end(state)
                closed += 1
                if closed == _CLOSINGS_PER_TICK:
                    return

    def drop_pooled_buffers(self) -> None:
        """Return pooled buffers to the system."""
        self._pool.clear()

    def largest_clients(self, memory: Memory, count: int, least_bytes: int) -> list[tuple[int, Callable[[], None]]]:
        """Return the clients' connections that hold most memory, for `MemoryGuard`; connections of nodes are exempt."""
        found = []
        for state in filter(self._is_clients, self._connections.values()):
            held_bytes = state.held_bytes + memory.unsent_bytes(state.info.connection)
            if held_bytes >= least_bytes:
                found.append((held_bytes, partial(memory.abort_connection, state.info.connection)))
        return nlargest(count, found, key=itemgetter(0))

    def disconnect_clients(self) -> int:
        """End the connections of clients, soon; return how many. Those of nodes stay."""
        clients = [state for state in self._connections.values() if self._is_clients(state)]
        self._client_disconnect.add(clients)
        return len(clients)

    def _is_clients(self, state: Connection) -> bool:
        info = state.info
        is_nodes = info.role is ListenerRole.CONTROLLER or info.listener in self.config.privileged_listeners
        return not is_nodes and info.follower_id is None and info.heartbeats_of is None

    def _reject(self, peer: Endpoint, listener: str, limit: int) -> None:
        self.rejected += 1
        if self._rejection_lines.take_permit():
            logger.warning(
                "rejected a connection from %s on %s: %d open in all (max.connections=%d), %d from this address "
                "(max.connections.per.ip=%d); %d rejected so far",
                peer,
                listener,
                len(self._connections),
                self.config.connections_max,
                self._per_ip[peer.host],
                limit,
                self.rejected,
            )

    def _close(self, state: Connection, reason: str) -> None:
        """Close a connection that violated the protocol, and log the reason: a warning unless there are many."""
        if state.is_closed:
            return
        self.closed_for_protocol_errors += 1
        logger.log(
            logging.WARNING if self._closing_lines.take_permit() else logging.DEBUG,
            "closing connection from %s on %s: %s (%d closed for such reasons so far)",
            state.info.peer,
            state.info.listener,
            one_line(reason),
            self.closed_for_protocol_errors,
        )
        self._end(state)

    def _end(self, state: Connection, *, at_once: bool = False) -> None:
        self._remove(state)
        self._network.close_connection(state.info.connection, at_once=at_once)

    def _remove(self, state: Connection) -> None:
        state.close()
        self.authentication.remove(state.info.connection)
        self._pipeline.flow.throttled.remove(state.info.connection)
        self._delayed_closes.remove(state.info.connection)
        del self._connections[state.info.connection]
        self.open_by_listener[state.info.listener] -= 1
        self._per_ip[state.info.peer.host] -= 1
        if not self._per_ip[state.info.peer.host]:
            del self._per_ip[state.info.peer.host]
        self._services.on_connection_ended(state.info.connection, state.info.client_instance_id)
        if state.info.heartbeats_of is not None:
            self._on_heartbeats_ended(*state.info.heartbeats_of)
        if state.info.follower_id is not None:
            self._on_follower_ended(state.info.follower_id)
