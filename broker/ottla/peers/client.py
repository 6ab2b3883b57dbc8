"""`PeerClient`: the one implementation of `PeerChannel`, on `ports.Network`.

A lane is a connection to one endpoint: made when something is to be sent, agreed on versions once (ApiVersions,
KIP-35), logged in where the listener has SASL (`peers.login`), then used for request after request; answers come back
in order. What breaks a lane fails what was sent over it; what was not sent yet goes over the next connection. The first
attempt after a break is immediate, those after failed attempts wait, a little longer each time.

An answer's record bytes are views on the frame that they came in, which nobody writes to again: they may be kept.
Source: NetworkClient, ClusterConnectionStates and InFlightRequests of Apache Kafka.
"""

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla import __version__
from ottla.errors import ErrorCode, ProtocolError
from ottla.peers.channel import PeerAnswer, PeerFailure
from ottla.peers.frames import FrameReader
from ottla.peers.lanes import Lane, Pending, Probe, State
from ottla.peers.login import LaneLogin
from ottla.peers.spoken import Spoken
from ottla.ports import Clock, ConnectionId, Network, Random
from ottla.purgatory import Delayed
from ottla.quoting import one_line
from ottla.sasl.client_login import Login
from ottla.sasl.exchange import AuthenticationFailedError
from ottla.types import Endpoint
from ottla.wire.codec import FieldNotInVersionError, Message
from ottla.wire.codec.primitives import skip_header_tags
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.registry import ApiKey

logger = logging.getLogger(__name__)

_SCRATCH_BYTES = 64 * 1024
_IDLE_CHECK_INTERVAL_MS = 10_000
_CORRELATION_IDS = 2**31
_JITTER_PERCENT = 20
_API_VERSIONS = ApiKey.API_VERSIONS  # looked up in its class for every answer it would cost as much as a call
_API_VERSIONS_NEWEST = 4
_ATTEMPTS_TO_LONGEST_REST = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerClientConfig:
    """How patient a node is with others; the defaults are those of Kafka's own clients between nodes.

    Attributes:
        client_id: what peers' logs call this node.
        reconnect_backoff_ms: rest after the first failed attempt; it doubles.
        reconnect_backoff_max_ms: the longest rest.
        connection_setup_timeout_ms: for the connection and the agreement on versions.
        idle_ms_max: a lane that was silent for this long is closed; a bit below what peers allow.
        response_size_bytes_max: a larger answer is taken for a broken peer.
    """

    client_id: str = "ottla"
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 500
    connection_setup_timeout_ms: int = 10_000
    idle_ms_max: int = 540_000
    response_size_bytes_max: int = 256 * 1024 * 1024


class PeerClient:
    """See the module.

    Args of the constructor:
        logins: how to log in, by listener; a listener without SASL has none.
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
        self._lanes: dict[tuple[Endpoint, str, str], Lane] = {}
        self._probes: dict[ConnectionId, Probe] = {}
        self._correlation_id = 0
        self._next_idle_check_ms = 0
        self._due_ms: int | None = None
        """When `tick` is due; to be worked out anew once `_is_due_known` is False."""
        self._is_due_known = False
        self._is_closed = False
        self.lane_of: dict[ConnectionId, Lane | None] = {}
        """Every connection that this client opened; None for a probe's. For the driver to tell them from others."""

    # --- PeerChannel

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, lane: str = ""
    ) -> Delayed[PeerAnswer]:
        """See `PeerChannel.send`."""
        if self._is_closed:
            return Delayed()
        key = (endpoint, listener, lane)
        found = self._lanes.get(key)
        if found is None:
            found = self._lanes[key] = Lane(endpoint, listener, lane)
        now_ms = self._clock.monotonic_ms()
        pending = Pending(request, now_ms + timeout_ms)
        if found.earliest_deadline_ms is None or pending.deadline_ms < found.earliest_deadline_ms:
            found.earliest_deadline_ms = pending.deadline_ms
            self._is_due_known = False
        found.unsent.append(pending)
        if found.is_up:
            self._transmit_unsent(found)
        elif found.state is State.DOWN:
            self._is_due_known = False
            if now_ms >= found.next_attempt_ms:
                self._connect(found, now_ms)
        return pending.answer

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        """See `PeerChannel.probe`."""
        if self._is_closed:
            return Delayed()
        probe = Probe(endpoint, listener, self._clock.monotonic_ms() + timeout_ms)
        self._dial_probe(probe)
        return probe.answer

    # --- what the driver calls, for the connections in `lane_of`

    def connected(self, connection: ConnectionId) -> None:
        lane = self.lane_of.get(connection)
        if lane is None:
            if connection in self._probes:
                self._probes[connection].is_connected = True
            return
        self._enter(lane, State.AGREEING)
        lane.reader = FrameReader(self._scratch, self._config.response_size_bytes_max)
        self._ask_for_versions(lane, _API_VERSIONS_NEWEST)

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        lane = self.lane_of[connection]
        if lane is None or lane.reader is None:
            return self._scratch
        return lane.reader.receive_buffer()

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        lane = self.lane_of[connection]
        if lane is None or lane.reader is None:
            return
        lane.last_active_ms = self._clock.monotonic_ms()
        try:
            frames = lane.reader.received(size_bytes)
        except ProtocolError as error:
            self._end_liar(lane, error)
            return
        for frame in frames:
            try:
                pending, answer = self._take_answer(lane, frame)
            except (ProtocolError, IndexError) as error:
                self._end_liar(lane, error)
                return
            pending.answer.complete(answer)
            if lane.connection != connection:
                return  # who got the answer had the lane closed

    def drained(self, connection: ConnectionId) -> None:
        lane = self.lane_of.get(connection)
        if lane is not None:
            lane.may_send = True
            if lane.is_up:
                self._transmit_unsent(lane)

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None:
        failure = PeerFailure.REFUSED if was_refused else PeerFailure.DISCONNECTED
        if connection in self._probes:
            self._on_probe_closed(self._probes[connection], failure)
            return
        lane = self.lane_of.get(connection)
        if lane is None:
            return
        logger.debug("connection to %s (%s) ended: %s", lane.endpoint, lane.name or "default", reason)
        was_up = lane.state is State.UP
        self._forget_connection(lane)
        self._fail(lane, failure, is_failed_attempt=not was_up)

    def tick(self, now_ms: int) -> int | None:
        """Time out requests, probes and attempts; try again what is due; close idle lanes.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        due_ms = self._due_ms if self._is_due_known else self.next_deadline_ms()
        if due_ms is None or now_ms < due_ms:
            return due_ms
        self._is_due_known = False
        for probe in [each for each in self._probes.values() if each.deadline_ms <= now_ms]:
            self._end_probe(probe, None if probe.is_connected else PeerFailure.TIMED_OUT)
        for lane in list(self._lanes.values()):
            if lane.earliest_deadline_ms is not None and now_ms >= lane.earliest_deadline_ms:
                self._time_out(lane, now_ms)
            if lane.state is State.DOWN:
                if lane.unsent and now_ms >= lane.next_attempt_ms:
                    self._connect(lane, now_ms)
            elif lane.state is not State.UP and now_ms >= self._setup_deadline_ms(lane):
                self._drop(lane, PeerFailure.TIMED_OUT, is_failed_attempt=True)
            elif (renew_at_ms := lane.renew_login_at_ms) is not None and now_ms >= renew_at_ms:
                lane.attempt_started_ms = now_ms
                self._log_in(lane)
        if now_ms >= self._next_idle_check_ms:
            self._next_idle_check_ms = now_ms + _IDLE_CHECK_INTERVAL_MS
            self._close_idle(now_ms)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` has something to do at the latest."""
        if not self._is_due_known:
            self._due_ms = min(self._due(), default=None)
            self._is_due_known = True
        return self._due_ms

    def close(self) -> None:
        """Close every connection for good. Nobody is told any more: who waits for an answer is closed as well."""
        self._is_closed = True
        for connection in list(self.lane_of):
            self._network.close_connection(connection)
        self.lane_of.clear()
        self._lanes.clear()
        self._probes.clear()
        self._is_due_known = False

    # --- a lane's life

    def _enter(self, lane: Lane, state: State) -> None:
        lane.state = state
        lane.is_up = state is State.UP
        self._is_due_known = False

    def _connect(self, lane: Lane, now_ms: int) -> None:
        self._enter(lane, State.CONNECTING)
        lane.may_send = True
        lane.attempt_started_ms = lane.last_active_ms = now_ms
        lane.connection = self._network.connect(lane.endpoint, lane.listener)
        self.lane_of[lane.connection] = lane

    def _ask_for_versions(self, lane: Lane, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        asked = Pending(request, self._setup_deadline_ms(lane))
        asked.spoken = self._spoken(ApiKey.API_VERSIONS, version)
        asked.answer.on_complete(lambda answer: self._on_versions(lane, version, answer))
        self._transmit(lane, asked)

    def _on_versions(self, lane: Lane, version: int, answer: PeerAnswer) -> None:
        if not isinstance(answer, ApiVersionsResponse):
            return  # the lane is down, and who waits for it was told
        lane.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        lane.spoken = {}
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
            _, newest = lane.versions.get(ApiKey.API_VERSIONS, (0, 0))
            self._ask_for_versions(lane, min(newest, version - 1))
            return
        if answer.error_code != ErrorCode.NONE:
            logger.warning("%s does not say which versions it serves: error %d", lane.endpoint, answer.error_code)
            self._drop(lane, PeerFailure.DISCONNECTED, is_failed_attempt=True)
            return
        if lane.listener in self._logins:
            lane.login = LaneLogin(self._logins[lane.listener], lane.versions, self._random.randrange)
            self._log_in(lane)
        else:
            self._come_up(lane)

    def _come_up(self, lane: Lane) -> None:
        self._enter(lane, State.UP)
        lane.failed_attempts = 0
        self._transmit_unsent(lane)

    def _log_in(self, lane: Lane) -> None:
        """Begin the lane's login, or its renewal behind the requests that are under way."""
        assert lane.login is not None
        self._enter(lane, State.LOGGING_IN)
        self._send_of_login(lane, lane.login.begin())

    def _send_of_login(self, lane: Lane, request: Message) -> None:
        asked = Pending(request, self._setup_deadline_ms(lane))
        asked.spoken = self._spoken(ApiKey(request.api_key), self._version_for(lane, request) or 0)
        asked.answer.on_complete(lambda answer: self._on_login(lane, answer))
        self._transmit(lane, asked)

    def _on_login(self, lane: Lane, answer: PeerAnswer) -> None:
        if isinstance(answer, PeerFailure) or lane.login is None:
            return  # the lane is down, and who waits for it was told
        try:
            request = lane.login.go_on(answer, self._clock.monotonic_ms())
        except AuthenticationFailedError as error:
            logger.warning(
                "cannot log in at %s on %s as %r: %s",
                lane.endpoint,
                lane.listener,
                lane.login.user,
                one_line(error.reason),
            )
            # Another attempt soon would fail as well.
            lane.failed_attempts = _ATTEMPTS_TO_LONGEST_REST
            self._drop(lane, PeerFailure.DISCONNECTED, is_failed_attempt=True)
            return
        if request is None:
            self._come_up(lane)
        else:
            self._send_of_login(lane, request)

    def _drop(self, lane: Lane, failure: PeerFailure, *, is_failed_attempt: bool) -> None:
        """End the lane's connection from this side."""
        connection = lane.connection
        self._forget_connection(lane)
        self._network.close_connection(connection)
        self._fail(lane, failure, is_failed_attempt=is_failed_attempt)

    def _forget_connection(self, lane: Lane) -> None:
        del self.lane_of[lane.connection]
        lane.connection = 0
        lane.reader = None
        lane.login = None
        self._enter(lane, State.DOWN)

    def _fail(self, lane: Lane, failure: PeerFailure, *, is_failed_attempt: bool) -> None:
        """Tell those who wait: of a connection that was up, those whose request was sent; else all of them."""
        failed = list(lane.in_flight)
        lane.in_flight.clear()
        now_ms = self._clock.monotonic_ms()
        if is_failed_attempt:
            failed += lane.unsent
            lane.unsent.clear()
            lane.failed_attempts += 1
            lane.next_attempt_ms = now_ms + self._backoff_ms(lane.failed_attempts)
        else:
            lane.next_attempt_ms = now_ms
        for pending in failed:
            pending.answer.complete(failure)
        if lane.unsent and lane.state is State.DOWN and now_ms >= lane.next_attempt_ms:
            self._connect(lane, now_ms)

    def _backoff_ms(self, failed_attempts: int) -> int:
        config = self._config
        backoff_ms = min(config.reconnect_backoff_ms << min(failed_attempts - 1, 16), config.reconnect_backoff_max_ms)
        jitter_ms = backoff_ms * _JITTER_PERCENT // 100
        return backoff_ms - jitter_ms + self._random.randrange(2 * jitter_ms + 1)

    def _setup_deadline_ms(self, lane: Lane) -> int:
        return lane.attempt_started_ms + self._config.connection_setup_timeout_ms

    def _close_idle(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._config.idle_ms_max
        for key, lane in list(self._lanes.items()):
            if lane.unsent or lane.in_flight:
                continue
            if lane.state is State.UP and lane.last_active_ms < oldest_ms:
                self._drop(lane, PeerFailure.DISCONNECTED, is_failed_attempt=False)
            if lane.state is State.DOWN and lane.next_attempt_ms < oldest_ms:
                del self._lanes[key]

    # --- requests and answers

    def _transmit_unsent(self, lane: Lane) -> None:
        while lane.unsent and lane.may_send and lane.is_up:
            pending = lane.unsent.popleft()
            api_key = pending.request.api_key
            spoken = lane.spoken.get(api_key)
            if spoken is None:
                version = self._version_for(lane, pending.request)
                if version is None:
                    pending.answer.complete(PeerFailure.UNSUPPORTED_VERSION)
                    continue
                spoken = lane.spoken[api_key] = self._spoken(ApiKey(api_key), version)
            pending.spoken = spoken
            self._transmit(lane, pending)

    def _spoken(self, api_key: ApiKey, version: int) -> Spoken:
        return Spoken(api_key, version, client_id=self._config.client_id)

    def _version_for(self, lane: Lane, request: Message) -> int | None:
        """Return the highest version that both sides speak."""
        offered = lane.versions.get(request.api_key)
        if offered is None:
            return None
        first, last = request.versions
        if request.latest_version_unstable:
            last -= 1
        version = min(last, offered[1])
        return version if version >= max(first, offered[0]) else None

    def _transmit(self, lane: Lane, pending: Pending) -> None:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        pending.correlation_id = self._correlation_id
        spoken = pending.spoken
        try:
            frame = spoken.frame(pending.request, pending.correlation_id)
        except FieldNotInVersionError as error:
            logger.debug("%s cannot be asked: %s", lane.endpoint, error)
            pending.answer.complete(PeerFailure.UNSUPPORTED_VERSION)
            return
        except ValueError:
            logger.exception("%s v%d cannot be sent to %s", spoken.api_key.name, spoken.version, lane.endpoint)
            pending.answer.complete(PeerFailure.UNSUPPORTED_VERSION)
            return
        lane.in_flight.append(pending)
        lane.last_active_ms = self._clock.monotonic_ms()
        lane.may_send = self._network.send(lane.connection, frame)

    def _take_answer(self, lane: Lane, frame: memoryview) -> tuple[Pending, Message]:
        """Return the request that ``frame`` answers, and the answer.

        Raises:
            ProtocolError: it is no answer to the oldest request under way.
        """
        if not lane.in_flight:
            raise ProtocolError("an answer to nothing")
        pending = lane.in_flight[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != pending.correlation_id:
            raise ProtocolError(f"answer {correlation_id} came where {pending.correlation_id} was due")
        spoken = pending.spoken
        position, version = 4, spoken.version
        if spoken.has_flexible_response_header:
            position = skip_header_tags(frame, position)
        if spoken.api_key is _API_VERSIONS:
            # What does not know the version answers in version 0 (KIP-511), which begins with the same error code.
            is_refused = int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
            version = 0 if is_refused else version
        answer = spoken.response_type.decode(frame, version, position)
        lane.in_flight.popleft()
        return pending, answer

    def _end_liar(self, lane: Lane, error: Exception) -> None:
        logger.warning(
            "closing the connection to %s: it sent bytes that are no answer: %s", lane.endpoint, one_line(str(error))
        )
        self._drop(lane, PeerFailure.DISCONNECTED, is_failed_attempt=True)

    # --- time

    def _time_out(self, lane: Lane, now_ms: int) -> None:
        late = [pending for pending in lane.waiting() if pending.deadline_ms <= now_ms]
        for pending in late:
            (lane.in_flight if pending in lane.in_flight else lane.unsent).remove(pending)
        if late:
            # Answers come in order: whoever waits behind a silent peer waits in vain as well.
            self._abandon(lane)
        lane.earliest_deadline_ms = min((pending.deadline_ms for pending in lane.waiting()), default=None)
        for pending in late:
            pending.answer.complete(PeerFailure.TIMED_OUT)

    def _abandon(self, lane: Lane) -> None:
        """Close a connection on which a request timed out, or that does not come up."""
        if lane.state is State.DOWN:
            return
        unsent, lane.unsent = lane.unsent, deque()
        self._drop(lane, PeerFailure.DISCONNECTED, is_failed_attempt=lane.state is not State.UP)
        lane.unsent.extendleft(reversed(unsent))

    def _due(self) -> Iterator[int]:
        for probe in self._probes.values():
            yield probe.deadline_ms
        for lane in self._lanes.values():
            if lane.earliest_deadline_ms is not None:
                yield lane.earliest_deadline_ms
            if lane.state is State.DOWN:
                if lane.unsent:
                    yield lane.next_attempt_ms
            elif lane.state is not State.UP:
                yield self._setup_deadline_ms(lane)
            elif lane.renew_login_at_ms is not None:
                yield lane.renew_login_at_ms
        if self._lanes:
            yield self._next_idle_check_ms

    # --- a probe's life

    def _dial_probe(self, probe: Probe) -> None:
        probe.connection = self._network.connect(probe.endpoint, probe.listener)
        probe.is_connected = False
        self._probes[probe.connection] = probe
        self._is_due_known = False
        self.lane_of[probe.connection] = None

    def _on_probe_closed(self, probe: Probe, failure: PeerFailure) -> None:
        if failure is PeerFailure.REFUSED or probe.is_second:
            self._end_probe(probe, failure)
            return
        self._forget_probe(probe)
        probe.is_second = True
        self._dial_probe(probe)

    def _end_probe(self, probe: Probe, outcome: PeerFailure | None) -> None:
        self._forget_probe(probe)
        if outcome in (None, PeerFailure.TIMED_OUT):
            self._network.close_connection(probe.connection)
        probe.answer.complete(outcome)

    def _forget_probe(self, probe: Probe) -> None:
        del self._probes[probe.connection]
        self._is_due_known = False
        self.lane_of.pop(probe.connection, None)
