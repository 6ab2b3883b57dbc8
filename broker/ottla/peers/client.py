"""`PeerClient`: the only implementation of `PeerChannel`, on `ports.Network`.

A connection is opened for the first request, agrees on versions (ApiVersions, KIP-35), authenticates if the listener
has SASL (`sasl_client`), and is then used for further requests; responses arrive in order. A lost connection fails the
requests that were sent over it; unsent ones go over the next connection. The first reconnect is immediate, those after
failed attempts back off exponentially.

A response's record bytes are views of its frame, which is never written again: they may be kept.
Source: NetworkClient, ClusterConnectionStates and InFlightRequests of Apache Kafka.
"""

import logging
from collections import deque
from collections.abc import Iterator, Mapping

from ottla import __version__
from ottla.errors import ErrorCode, ProtocolError
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.peers.config import PeerClientConfig, reconnect_backoff_ms
from ottla.peers.frames import FrameReader
from ottla.peers.peer_connection import PeerConnection, Pending, State
from ottla.peers.probes import Probe, Probes
from ottla.peers.sasl_client import SaslClient
from ottla.peers.versioned_api import VersionedApi
from ottla.ports import Clock, ConnectionId, Network, Random
from ottla.purgatory import Delayed
from ottla.quoting import one_line
from ottla.sasl.client_login import Login
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.types import Endpoint
from ottla.wire.codec import FieldNotInVersionError, Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.registry import ApiKey

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 64 * 1024
_IDLE_CHECK_INTERVAL_MS = 10_000
_CORRELATION_IDS = 2**31

_VERSIONS_REQUEST = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
_API_VERSIONS_NEWEST = 4
_ATTEMPTS_TO_LONGEST_BACKOFF = 16


class PeerClient:
    """Client of other nodes.

    Args of the constructor:
        logins: credentials by listener; a listener without SASL has none.
    """

    def __init__(
        self,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        config: PeerClientConfig | None = None,
        logins: Mapping[str, Login] | None = None,
    ) -> None:
        self._network = network
        self._clock = clock
        self._random = random
        self._config = config or PeerClientConfig()
        self._logins = logins or {}
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self._peers: dict[tuple[Endpoint, str, str], PeerConnection] = {}
        self._probes = Probes(network)
        self._correlation_id = 0
        self._next_idle_check_ms = 0
        self._due_ms: int | None = None
        """When `tick` is due; computed again once `_is_due_known` is False."""
        self._is_due_known = False
        self._is_closed = False
        self.connections: dict[ConnectionId, PeerConnection | None] = {}
        """Every connection that this client opened; None for a probe's. The driver dispatches by it."""

    # --- PeerChannel

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        """See `PeerChannel.send`."""
        if self._is_closed:
            return Delayed()
        key = (endpoint, listener, purpose)
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = PeerConnection(endpoint, listener, purpose)
        now_ms = self._clock.monotonic_ms()
        pending = Pending(request, now_ms + timeout_ms)
        if peer.earliest_deadline_ms is None or pending.deadline_ms < peer.earliest_deadline_ms:
            peer.earliest_deadline_ms = pending.deadline_ms
            self._is_due_known = False
        peer.unsent.append(pending)
        if peer.is_up:
            self._transmit_unsent(peer)
        elif peer.state is State.DOWN:
            self._is_due_known = False
            if now_ms >= peer.next_attempt_ms:
                self._connect(peer, now_ms)
        return pending.result

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        """See `PeerChannel.probe`."""
        if self._is_closed:
            return Delayed()
        probe = Probe(endpoint, listener, self._clock.monotonic_ms() + timeout_ms)
        self._start_probe(probe)
        return probe.result

    def ping(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerResult]:
        """Send a request to which every node responds at once, whatever else it does, on a connection of its own."""
        return self.send(endpoint, listener, _VERSIONS_REQUEST, timeout_ms=timeout_ms, purpose="ping")

    # --- for the driver, which calls these for the ids in `connections`

    def connected(self, connection: ConnectionId) -> None:
        peer = self.connections.get(connection)
        if peer is None:
            self._probes.on_connected(connection)
            return
        self._set_state(peer, State.AGREEING)
        peer.reader = FrameReader(self._scratch, self._config.response_size_bytes_max)
        self._request_versions(peer, _API_VERSIONS_NEWEST)

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        peer = self.connections[connection]
        if peer is None or peer.reader is None:
            return self._scratch
        return peer.reader.receive_buffer()

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        peer = self.connections[connection]
        if peer is None or peer.reader is None:
            return
        peer.last_active_ms = self._clock.monotonic_ms()
        try:
            frames = peer.reader.received(size_bytes)
        except ProtocolError as error:
            self._drop_invalid(peer, error)
            return
        for frame in frames:
            try:
                pending, response = peer.take_response(frame)
            except (ProtocolError, IndexError) as error:
                self._drop_invalid(peer, error)
                return
            pending.result.complete(response)
            if peer.connection != connection:
                return  # the completion closed the connection

    def drained(self, connection: ConnectionId) -> None:
        peer = self.connections.get(connection)
        if peer is not None:
            peer.may_send = True
            if peer.is_up:
                self._transmit_unsent(peer)

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        failure = PeerFailure.CONNECTION_REFUSED if was_connection_refused else PeerFailure.DISCONNECTED
        if connection in self._probes:
            self._on_probe_closed(connection, failure)
            return
        peer = self.connections.get(connection)
        if peer is None:
            return
        logger.debug("connection to %s (%s) ended: %s", peer.endpoint, peer.purpose or "default", reason)
        was_up = peer.state is State.UP
        self._remove_connection(peer)
        self._fail(peer, failure, is_failed_attempt=not was_up)

    def tick(self, now_ms: int) -> int | None:
        """Time out requests, probes and attempts; start due attempts; close idle connections.

        Return ``now_ms`` when something was due, else the value of `next_deadline_ms`.
        """
        due_ms = self._due_ms if self._is_due_known else self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return due_ms
        self._is_due_known = False
        for probe in self._probes.expired(now_ms):
            self._end_probe(probe, None if probe.is_connected else PeerFailure.TIMED_OUT)
        for peer in list(self._peers.values()):
            if peer.earliest_deadline_ms is not None and now_ms >= peer.earliest_deadline_ms:
                self._time_out(peer, now_ms)
            if peer.state is State.DOWN:
                if peer.unsent and now_ms >= peer.next_attempt_ms:
                    self._connect(peer, now_ms)
            elif peer.state is not State.UP and now_ms >= self._setup_deadline_ms(peer):
                self._drop(peer, PeerFailure.TIMED_OUT, is_failed_attempt=True)
            elif (renew_at_ms := peer.reauthenticate_at_ms) is not None and now_ms >= renew_at_ms:
                peer.attempt_started_ms = now_ms
                self._start_authentication(peer)
        if now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + _IDLE_CHECK_INTERVAL_MS
            self._close_idle(now_ms)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called at the latest."""
        if not self._is_due_known:
            self._due_ms = min(self._due(), default=None)
            self._is_due_known = True
        return self._due_ms

    def close(self) -> None:
        """Close every connection for good; pending results stay incomplete, as their owners are closed as well."""
        self._is_closed = True
        for connection in list(self.connections):
            self._network.close_connection(connection)
        self.connections.clear()
        self._peers.clear()
        self._probes.clear()
        self._is_due_known = False

    # --- connections

    def _set_state(self, peer: PeerConnection, state: State) -> None:
        peer.state = state
        peer.is_up = state is State.UP
        self._is_due_known = False

    def _connect(self, peer: PeerConnection, now_ms: int) -> None:
        self._set_state(peer, State.CONNECTING)
        peer.may_send = True
        peer.attempt_started_ms = peer.last_active_ms = now_ms
        peer.connection = self._network.connect(peer.endpoint, peer.listener)
        self.connections[peer.connection] = peer

    def _request_versions(self, peer: PeerConnection, version: int) -> None:
        pending = Pending(_VERSIONS_REQUEST, self._setup_deadline_ms(peer))
        pending.api = self._new_api(ApiKey.API_VERSIONS, version)
        pending.result.on_complete(lambda result: self._on_versions(peer, version, result))
        self._transmit(peer, pending)

    def _on_versions(self, peer: PeerConnection, version: int, result: PeerResult) -> None:
        if not isinstance(result, ApiVersionsResponse):
            return  # the connection is down, and the requests that waited for it have failed
        peer.versions = {each.api_key: (each.min_version, each.max_version) for each in result.api_keys}
        peer.apis = {}
        if result.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            _, newest = peer.versions.get(ApiKey.API_VERSIONS, (0, 0))
            self._request_versions(peer, min(newest, version - 1))
            return
        if result.error_code != ErrorCode.NONE:
            logger.warning("%s does not report its API versions: error %d", peer.endpoint, result.error_code)
            self._drop(peer, PeerFailure.DISCONNECTED, is_failed_attempt=True)
            return
        if peer.listener in self._logins:
            peer.sasl = SaslClient(self._logins[peer.listener], peer.versions, self._random.randrange)
            self._start_authentication(peer)
        else:
            self._on_setup_complete(peer)

    def _on_setup_complete(self, peer: PeerConnection) -> None:
        self._set_state(peer, State.UP)
        peer.failed_attempts = 0
        self._transmit_unsent(peer)

    def _start_authentication(self, peer: PeerConnection) -> None:
        """Start authentication, or its renewal behind the in-flight requests."""
        assert peer.sasl is not None
        self._set_state(peer, State.AUTHENTICATING)
        self._send_for_setup(peer, peer.sasl.start())

    def _send_for_setup(self, peer: PeerConnection, request: Message) -> None:
        pending = Pending(request, self._setup_deadline_ms(peer))
        pending.api = self._new_api(ApiKey(request.api_key), peer.version_for(request) or 0)
        pending.result.on_complete(lambda result: self._on_sasl_response(peer, result))
        self._transmit(peer, pending)

    def _on_sasl_response(self, peer: PeerConnection, result: PeerResult) -> None:
        if isinstance(result, PeerFailure) or peer.sasl is None:
            return  # the connection is down, and the requests that waited for it have failed
        try:
            request = peer.sasl.continue_with(result, self._clock.monotonic_ms())
        except AuthenticationFailedError as error:
            logger.warning(
                "authentication at %s on %s as %r failed: %s",
                peer.endpoint,
                peer.listener,
                peer.sasl.user,
                one_line(error.reason),
            )
            # An immediate retry would fail as well.
            peer.failed_attempts = _ATTEMPTS_TO_LONGEST_BACKOFF
            self._drop(peer, PeerFailure.DISCONNECTED, is_failed_attempt=True)
            return
        if request is None:
            self._on_setup_complete(peer)
        else:
            self._send_for_setup(peer, request)

    def _drop(self, peer: PeerConnection, failure: PeerFailure, *, is_failed_attempt: bool) -> None:
        """Close the connection from this side."""
        connection = peer.connection
        self._remove_connection(peer)
        self._network.close_connection(connection)
        self._fail(peer, failure, is_failed_attempt=is_failed_attempt)

    def _remove_connection(self, peer: PeerConnection) -> None:
        del self.connections[peer.connection]
        peer.connection = 0
        peer.reader = None
        peer.sasl = None
        self._set_state(peer, State.DOWN)

    def _fail(self, peer: PeerConnection, failure: PeerFailure, *, is_failed_attempt: bool) -> None:
        """Fail the in-flight requests, and after a failed attempt the unsent ones, too."""
        failed = list(peer.in_flight)
        peer.in_flight.clear()
        now_ms = self._clock.monotonic_ms()
        if is_failed_attempt:
            failed += peer.unsent
            peer.unsent.clear()
            peer.failed_attempts += 1
            peer.next_attempt_ms = now_ms + reconnect_backoff_ms(self._config, peer.failed_attempts, self._random)
        else:
            peer.next_attempt_ms = now_ms
        for pending in failed:
            pending.result.complete(failure)
        if peer.unsent and peer.state is State.DOWN and now_ms >= peer.next_attempt_ms:
            self._connect(peer, now_ms)

    def _setup_deadline_ms(self, peer: PeerConnection) -> int:
        return peer.attempt_started_ms + self._config.connection_setup_timeout_ms

    def _close_idle(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._config.idle_ms_max
        for key, peer in list(self._peers.items()):
            if peer.unsent or peer.in_flight:
                continue
            if peer.state is State.UP and peer.last_active_ms < oldest_ms:
                self._drop(peer, PeerFailure.DISCONNECTED, is_failed_attempt=False)
            if peer.state is State.DOWN and peer.next_attempt_ms < oldest_ms:
                del self._peers[key]

    # --- requests

    def _transmit_unsent(self, peer: PeerConnection) -> None:
        while peer.unsent and peer.may_send and peer.is_up:
            pending = peer.unsent.popleft()
            api_key = pending.request.api_key
            api = peer.apis.get(api_key)
            if api is None:
                version = peer.version_for(pending.request)
                if version is None:
                    pending.result.complete(PeerFailure.UNSUPPORTED_VERSION)
                    continue
                api = peer.apis[api_key] = self._new_api(ApiKey(api_key), version)
            pending.api = api
            self._transmit(peer, pending)

    def _new_api(self, api_key: ApiKey, version: int) -> VersionedApi:
        return VersionedApi(api_key, version, client_id=self._config.client_id)

    def _transmit(self, peer: PeerConnection, pending: Pending) -> None:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        pending.correlation_id = self._correlation_id
        api = pending.api
        try:
            frame = api.frame(pending.request, pending.correlation_id)
        except FieldNotInVersionError as error:
            logger.debug("a request to %s cannot be encoded: %s", peer.endpoint, error)
            pending.result.complete(PeerFailure.UNSUPPORTED_VERSION)
            return
        except ValueError:
            logger.exception("%s v%d cannot be sent to %s", api.api_key.name, api.version, peer.endpoint)
            pending.result.complete(PeerFailure.UNSUPPORTED_VERSION)
            return
        peer.in_flight.append(pending)
        peer.last_active_ms = self._clock.monotonic_ms()
        peer.may_send = self._network.send(peer.connection, frame)

    def _drop_invalid(self, peer: PeerConnection, error: Exception) -> None:
        logger.warning("closing the connection to %s: invalid response: %s", peer.endpoint, one_line(str(error)))
        self._drop(peer, PeerFailure.DISCONNECTED, is_failed_attempt=True)

    # --- time

    def _time_out(self, peer: PeerConnection, now_ms: int) -> None:
        late = [pending for pending in peer.waiting() if pending.deadline_ms <= now_ms]
        for pending in late:
            (peer.in_flight if pending in peer.in_flight else peer.unsent).remove(pending)
        if late:
            # Responses are in order: requests behind the silent one would wait in vain as well.
            self._abandon(peer)
        peer.earliest_deadline_ms = min((pending.deadline_ms for pending in peer.waiting()), default=None)
        for pending in late:
            pending.result.complete(PeerFailure.TIMED_OUT)

    def _abandon(self, peer: PeerConnection) -> None:
        """Close a connection on which a request timed out, or whose setup did; keep its other unsent requests."""
        if peer.state is State.DOWN:
            return
        unsent, peer.unsent = peer.unsent, deque()
        self._drop(peer, PeerFailure.DISCONNECTED, is_failed_attempt=peer.state is not State.UP)
        peer.unsent.extendleft(reversed(unsent))

    def _due(self) -> Iterator[int]:
        yield from self._probes.deadlines_ms()
        for peer in self._peers.values():
            if peer.earliest_deadline_ms is not None:
                yield peer.earliest_deadline_ms
            if peer.state is State.DOWN:
                if peer.unsent:
                    yield peer.next_attempt_ms
            elif peer.state is not State.UP:
                yield self._setup_deadline_ms(peer)
            elif peer.reauthenticate_at_ms is not None:
                yield peer.reauthenticate_at_ms
        if self._peers:
            yield self._next_idle_check_ms

    # --- probes

    def _start_probe(self, probe: Probe) -> None:
        self._probes.start(probe)
        self._is_due_known = False
        self.connections[probe.connection] = None

    def _on_probe_closed(self, connection: ConnectionId, failure: PeerFailure) -> None:
        probe = self._probes.remove(connection)
        self._is_due_known = False
        self.connections.pop(connection, None)
        if failure is PeerFailure.CONNECTION_REFUSED or probe.is_second:
            probe.result.complete(failure)
            return
        probe.is_second = True
        self._start_probe(probe)

    def _end_probe(self, probe: Probe, outcome: PeerFailure | None) -> None:
        self._probes.remove(probe.connection)
        self._is_due_known = False
        self.connections.pop(probe.connection, None)
        self._network.close_connection(probe.connection)
        probe.result.complete(outcome)
