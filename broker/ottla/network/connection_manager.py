"""All client connections of a node: let in within limits, served by the pipeline, closed when idle too long.

How many there are is bounded, and what their requests hold in memory over all of them; the listeners of controllers and
of brokers among themselves are outside these bounds, so that no crowd of clients keeps the cluster from running.

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
"""Of idle connections; thousands of them at once would hold up everybody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits, by the keys of ``server.properties``."""

    request_size_bytes_max: int = 100 * 1024 * 1024
    connections_max: int = 2**31 - 1
    """Counts all of them; those of ``privileged_listeners`` are let in above it."""
    connections_per_ip_max: int = 2**31 - 1
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    idle_ms_max: int = 600_000
    request_memory_bytes_max: int = 256 * 1024 * 1024
    """Over all connections but those of ``privileged_listeners``; fixed when the node starts, as they are."""
    privileged_listeners: frozenset[str] = frozenset()


class ConnectionManager:
    """See the module.

    Args of the constructor:
        roles: of each listener, whether brokers' or controllers' APIs are served there.
        scram: returns the SCRAM credentials that count now; None: those of the newest metadata.
        principal_mappings: of the listeners whose clients are who their certificate says.
        key_source: fetches what tokens are checked with.
        on_heartbeats_ended: told of a broker, by id and epoch, whose heartbeats came over a connection that has ended.
        on_follower_ended: told of a broker whose replicas fetched over a connection that has ended.
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
        """Connections that came too fast from their address."""
        self._timed = (self.authentication, self._pipeline.flow.throttled, self._delayed_closes)
        self._has_caught_up = False
        self._serves_clients = False
        self._per_ip: Counter[str] = Counter()
        self.open_by_listener: Counter[str] = Counter()
        self._to_check: deque[Connection] = deque()
        """Those of which it is not known yet whether they are idle."""
        self._next_idle_check_ms = services.clock.monotonic_ms() + _IDLE_CHECK_INTERVAL_MS
        self._rejection_lines = LineLimit(services.clock)
        self._closing_lines = LineLimit(services.clock)
        self._idle_lines = LineLimit(services.clock)
        self.closed_idle = 0
        self.refused = 0
        self.closed_for_protocol_errors = 0
        self.accepted_total = 0

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    @property
    def muted(self) -> int:
        """How many connections are not read because of a quota; those that will be closed count."""
        return len(self._pipeline.flow.throttled) + len(self._delayed_closes)

    @property
    def routes(self) -> list[Route]:
        return self._pipeline.routes

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint | None) -> bool:
        """Take a new connection in; False when a limit is reached, or the broker does not know the cluster yet."""
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
            dialled=dialled,
        )
        sasl = self.authentication.listeners.get(listener)
        state = Connection(
            info,
            scratch=self._scratch,
            pool=self._pool,
            memory=self.memories.memory_of(listener) if sasl is None else self.memories.login_memory_of(listener),
            frame_size_bytes_max=self.config.request_size_bytes_max if sasl is None else sasl.receive_bytes_max,
            on_frame=self._pipeline.on_frame,
            scheduler=self._pipeline.flow.scheduler,
            now_ms=self._services.clock.monotonic_ms(),
        )
        self._connections[connection] = state
        self.authentication.begin(state)
        self._per_ip[peer.host] += 1
        self.open_by_listener[listener] += 1
        self.accepted_total += 1
        if close_after_ms > 0:
            self._delayed_closes.throttle(state, self._services.clock.monotonic_ms() + close_after_ms)
            self._network.pause_reading(connection)
        return True

    def _count_connection(self, listener: str, host: str, *, is_privileged: bool) -> int:
        """Hold a new connection against the rates; return 0, or after how long it is to be closed."""
        rates = self._services.quotas.connection_rates
        if not rates.is_enabled:
            return 0
        now_ms = self._services.clock.monotonic_ms()
        wait_ms = rates.accept_wait_ms(listener, now_ms, is_privileged=is_privileged)
        if wait_ms > 0:
            self._network.pause_accepting(listener, wait_ms)
        return rates.close_after_ms(host, now_ms)

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        """The TLS handshake is through; ``subject``: the distinguished name of the certificate that the client showed.

        Behind SASL the certificate is not who the client is.
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
            # No envelope to the controller can carry it.
            self._close(state, f"the subject of its certificate has {len(principal)} characters: {quoted(principal)}")
            return
        state.info.principal = principal

    def on_caught_up(self) -> None:
        """Let connections to the broker's listeners in, once any broker is unfenced: the metadata is new enough.

        Before, the answers would be those of an empty or of an old cluster. (Kafka's SocketServer opens these ports
        when the broker is unfenced; here they are open, so that a port in use is found at the start, and connections
        are closed at once.)
        """
        self._has_caught_up = True

    def on_unfenced(self) -> None:
        """Let them in: this broker is unfenced, even if its metadata does not say so yet."""
        self._serves_clients = True

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._connections[connection].receive_buffer()

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        state = self._connections[connection]
        try:
            if state.received(size_bytes):
                # A frame that is under way is no silence, however long it takes.
                state.last_active_ms = self._services.clock.monotonic_ms()
        except ProtocolError as error:
            self._close(state, str(error))
        if state.awaits_slice and not state.is_closed:
            self._pipeline.flow.await_slice(state)
        # What came together goes to the followers together.
        self._services.replicas.announce_appends()

    def drained(self, connection: ConnectionId) -> None:
        state = self._connections.get(connection)
        if state is not None:
            self._pipeline.flow.drained(state)

    def serves_rest(self, connection: ConnectionId) -> bool:
        """Return whether requests of a peer that has hung up are served yet, which it may want: see acks=0.

        They are where they wait for a turn, a quota or memory; not behind one in hand, nor behind answers not taken.
        """
        state = self._connections.get(connection)
        return state is not None and state.awaits_service and not self._delayed_closes.is_throttled(connection)

    def closed(self, connection: ConnectionId, reason: str) -> None:
        """The peer is gone."""
        state = self._connections.get(connection)
        if state is not None:
            logger.debug("connection from %s on %s ended: %s", state.info.peer, state.info.listener, one_line(reason))
            self._forget(state)

    def tick(self, now_ms: int) -> int | None:
        """Close connections that have been silent for too long, or keep memory that others wait for.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        if not self._has_work_at_hand:
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
        """What runs requests a slice at a time."""
        return self._pipeline.steps

    @property
    def large_requests(self) -> LargeRequests:
        return self._pipeline.large_requests

    @property
    def has_runnable_slices(self) -> bool:
        """Whether requests wait until others have been served."""
        return bool(self._pipeline.flow.scheduler or self._pipeline.steps)

    def run_slices(self) -> bool:
        """Serve some of them, and a slice of those that are under way; return whether there were any."""
        has_run = self._pipeline.steps.run_slices()
        if not self._pipeline.flow.scheduler:
            return has_run
        self._pipeline.flow.scheduler.run_slices()
        return True

    @property
    def _has_work_at_hand(self) -> bool:
        """Whether somebody waits for a turn or is to be looked at, however late the clock is by now."""
        return bool(self.has_runnable_slices or self._to_check)

    def next_deadline_ms(self) -> int | None:
        if self._has_work_at_hand:
            return self._services.clock.monotonic_ms()
        due_ms = self._next_idle_check_ms if self._connections else None
        for part in self._timed:
            part_ms = part.next_deadline_ms()
            if part_ms is not None and (due_ms is None or part_ms < due_ms):
                due_ms = part_ms
        if due_ms is None or not self.memories.is_awaited:
            return due_ms
        return min(due_ms, self.memories.next_check_ms)

    # --- logins ------------------------------------------------------------------------------------------------------

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
            on_logged_in=lambda state: state.move_to(
                self.memories.memory_of(state.info.listener), frame_size_bytes_max=self.config.request_size_bytes_max
            ),
            on_close=self._close,
            on_end=self._end,
        )

    def _close_idle(self, oldest_ms: int) -> None:
        """Look at some of the connections that were there when the check began, and close those that are idle."""
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
        """Give up the buffers that wait to be used again."""
        self._pool.clear()

    def largest_clients(self, memory: Memory, count: int, least_bytes: int) -> list[tuple[int, Callable[[], None]]]:
        """Return the clients' connections that hold most, for `MemoryGuard`; those of nodes are never among them."""
        found = []
        for state in self._connections.values():
            info = state.info
            is_nodes = info.role is ListenerRole.CONTROLLER or info.listener in self.config.privileged_listeners
            if not is_nodes and info.follower_id is None and info.heartbeats_of is None:
                held_bytes = state.held_bytes + memory.unsent_bytes(info.connection)
                if held_bytes >= least_bytes:
                    found.append((held_bytes, partial(memory.abort_connection, info.connection)))
        return nlargest(count, found, key=itemgetter(0))

    def _reject(self, peer: Endpoint, listener: str, limit: int) -> None:
        self.refused += 1
        if self._rejection_lines.take_permit():
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
        """End a connection that broke the rules; a line says whose and why, a warning unless there are many."""
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

    def _end(self, state: Connection) -> None:
        self._forget(state)
        self._network.close_connection(state.info.connection)

    def _forget(self, state: Connection) -> None:
        state.close()
        self.authentication.forget(state.info.connection)
        self._pipeline.flow.throttled.remove(state.info.connection)
        self._delayed_closes.remove(state.info.connection)
        del self._connections[state.info.connection]
        self.open_by_listener[state.info.listener] -= 1
        self._per_ip[state.info.peer.host] -= 1
        if not self._per_ip[state.info.peer.host]:
            del self._per_ip[state.info.peer.host]
        if state.info.heartbeats_of is not None:
            self._on_heartbeats_ended(*state.info.heartbeats_of)
        if state.info.follower_id is not None:
            self._on_follower_ended(state.info.follower_id)
