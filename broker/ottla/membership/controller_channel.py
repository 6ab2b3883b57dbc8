"""`ControllerChannel`: how a node reaches the active controller, wherever it is.

Next door where this node's own controller is the active one, else over the network to the quorum's leader, at its
controller listener. What a client asked a broker for travels in an Envelope, with who asked (KIP-590). NOT_CONTROLLER
and broken connections are no answers: the request is sent again, to the next leader when there is one, until its time
is up. Until there is a leader nothing is tried. A client's connection waits as long for that one answer (a minute in
Kafka), others do not. The response is that of the request's API, also when the controller refused: the error is in its
own fields.

Source: NodeToControllerChannelManagerImpl, ForwardingManagerImpl and EnvelopeUtils of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.membership.local_controller import LocalController
from ottla.peers.channel import PeerAnswer, PeerChannel, PeerFailure
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.raft.records import LeaderAndEpoch
from ottla.security.quotas.mutations import Mutations
from ottla.types import NEVER_MS, Endpoint, NodeId
from ottla.wire.codec import Message, Struct
from ottla.wire.codec.primitives import TooManyEntriesError
from ottla.wire.error_response import error_response
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.headers import RequestHeader, ResponseHeader
from ottla.wire.messages.registry import ApiKey, request_header_version, response_header_version, response_type
from ottla.wire.messages.stored_data import DefaultPrincipalData

RETRY_BACKOFF_MS: Final = 50
"""Rest before the same leader is asked again; a new leader is asked at once."""

PRINCIPAL_VERSION: Final = 0

_ENTRIES_MAX: Final = 10_000
"""Of a request that is passed on whole: as many partitions, say, as one request may create."""
_LOOKED_THROUGH_PER_MS: Final = 100
"""Requests that wait are looked through at most once in a millisecond for so many: some 3% of the node's time."""

logger = logging.getLogger(__name__)

AnswerHere = Callable[[Message], Delayed[Message]]
"""Answers a request where this node's controller is the active one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asked a broker for what is passed on: what an Envelope says of it."""

    api_version: int
    correlation_id: int
    client_id: str | None
    principal: str
    client_host: str


class ControllerChannel(Protocol):
    """The way to the active controller, wherever it is."""

    def send(self, request: Message) -> Delayed[Message]:
        """Send what this node itself asks for; the answer is the response class of its API.

        NOT_CONTROLLER where no active controller could be reached in time.
        """

    def forward(self, request: Message, origin: Origin, here: AnswerHere | None = None) -> Delayed[Message]:
        """Pass on what a client asked for; REQUEST_TIMED_OUT where no active controller answered in time.

        ``here`` answers instead of the controller's decisions where the active controller is next door.
        """

    def decide_here(self, request: Message, mutations: Mutations | None = None) -> Delayed[Message]:
        """Let this node's own controller answer; NOT_CONTROLLER where it is not the active one.

        ``mutations`` bounds what a request for topics may change; None for anything.
        """

    @property
    def active_controller_id(self) -> NodeId | None:
        """Node id of the active controller; None while there is none."""


class _Asked:
    """One request that has no answer yet."""

    __slots__ = ("answer", "attempt", "deadline_ms", "envelope", "here", "is_under_way", "next_attempt_ms", "origin",
                 "request", "sent_to")  # fmt: skip

    def __init__(self, request: Message, origin: Origin | None, here: AnswerHere | None, deadline_ms: int) -> None:
        self.request = request
        self.origin = origin
        self.here = here
        self.deadline_ms = deadline_ms
        # Encoded at once: the frame that a client's request is a view on does not last.
        self.envelope = None if origin is None else wrap(request, origin)
        self.answer: Delayed[Message] = Delayed()
        self.attempt = 0
        self.is_under_way = False
        self.next_attempt_ms = 0
        self.sent_to: LeaderAndEpoch | None = None


class NodeToControllerChannel:
    """See the module.

    Args of the constructor:
        controller: this node's own; None on a broker.
        leader: returns who leads the quorum.
        leader_endpoint: returns where the leader's controller listener is; None while that is not known.
        listener: the name of that listener.
        request_timeout_ms: for requests that name no timeout of their own.
        session_timeout_ms: broker.session.timeout.ms: older heartbeats are of no use.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        peers: PeerChannel,
        node_id: NodeId,
        controller: LocalController | None,
        leader: Callable[[], LeaderAndEpoch],
        leader_endpoint: Callable[[], Endpoint | None],
        listener: str,
        request_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._clock = clock
        self._peers = peers
        self._node_id = node_id
        self._controller = controller
        self._leader = leader
        self._leader_endpoint = leader_endpoint
        self._listener = listener
        self._request_timeout_ms = request_timeout_ms
        self._session_timeout_ms = session_timeout_ms
        self._waiting: dict[_Asked, None] = {}
        self._due_ms = NEVER_MS
        """When the first of them is due, or earlier."""
        self._rested_ms = 0
        """When they may be looked through again."""
        self._leader_seen: LeaderAndEpoch | None = None
        self._was_active = False

    # --- ControllerChannel

    def send(self, request: Message) -> Delayed[Message]:
        """See `ControllerChannel.send`."""
        return self._ask(_Asked(request, None, None, self._clock.monotonic_ms() + self._timeout_ms(request)))

    def forward(self, request: Message, origin: Origin, here: AnswerHere | None = None) -> Delayed[Message]:
        """See `ControllerChannel.forward`."""
        return self._ask(_Asked(request, origin, here, self._clock.monotonic_ms() + self._timeout_ms(request)))

    def decide_here(self, request: Message, mutations: Mutations | None = None) -> Delayed[Message]:
        """See `ControllerChannel.decide_here`."""
        if self._controller is None:
            return Delayed.of(error_response(request, _not_controller()))

        def answer(decided: Message | KafkaError) -> Message:
            return error_response(request, decided) if isinstance(decided, KafkaError) else decided

        return self._controller.handle(request, mutations).then(answer)

    @property
    def active_controller_id(self) -> NodeId | None:
        return self._leader().leader_id

    def tick(self, now_ms: int) -> int | None:
        """Send again what is due, to a new leader at once; end what has waited long enough.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        controller = self._controller
        is_active = controller is not None and controller.is_active
        became_active = is_active and not self._was_active
        self._was_active = is_active
        if not self._waiting:
            return None
        leader = self._leader()
        due_ms = max(self._due_ms, self._rested_ms)
        if now_ms < due_ms and leader == self._leader_seen and not became_active:
            return due_ms
        self._leader_seen, self._due_ms = leader, NEVER_MS
        for asked in list(self._waiting):
            if asked.answer.is_complete:
                continue
            if now_ms >= asked.deadline_ms:
                self._finish(asked, error_response(asked.request, _timed_out(asked)))
            elif asked.sent_to is not None and asked.sent_to != leader and leader.leader_id is not None:
                # Whatever the former leader does with it cannot be committed any more.
                self._attempt(asked, now_ms)
            elif not asked.is_under_way and (became_active or now_ms >= asked.next_attempt_ms):
                self._attempt(asked, now_ms)
            self._note_due(asked)
        self._rested_ms = now_ms + len(self._waiting) // _LOOKED_THROUGH_PER_MS
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` has something to do; news of a leader come with bytes, which bring a tick as well."""
        return max(self._due_ms, self._rested_ms) if self._waiting else None

    def _note_due(self, asked: _Asked) -> None:
        if asked in self._waiting:
            due_ms = asked.deadline_ms if asked.is_under_way else min(asked.next_attempt_ms, asked.deadline_ms)
            self._due_ms = min(self._due_ms, due_ms)

    @property
    def _is_active(self) -> bool:
        return self._controller is not None and self._controller.is_active

    # --- one request

    def _ask(self, asked: _Asked) -> Delayed[Message]:
        self._waiting[asked] = None
        self._attempt(asked, self._clock.monotonic_ms())
        self._note_due(asked)
        return asked.answer

    def _attempt(self, asked: _Asked, now_ms: int) -> None:
        asked.attempt += 1
        attempt = asked.attempt
        asked.is_under_way = True
        asked.sent_to = self._leader()
        if self._is_active:
            self._attempt_here(asked, attempt)
            return
        if asked.sent_to.leader_id is None:
            # Until there is one, trying again costs time and finds none: a crowd of requests may wait.
            asked.is_under_way, asked.next_attempt_ms = False, asked.deadline_ms
            return
        endpoint = self._leader_endpoint()
        if endpoint is None or asked.sent_to.leader_id == self._node_id:
            self._rest(asked)
            return
        wrapped = asked.envelope
        self._peers.send(
            endpoint,
            self._listener,
            asked.request if wrapped is None else wrapped,
            timeout_ms=max(1, min(asked.deadline_ms - now_ms, self._attempt_timeout_ms(asked.request))),
            lane=_lane_of(asked),
        ).on_complete(lambda answer: self._on_answer(asked, attempt, answer))

    def _attempt_here(self, asked: _Asked, attempt: int) -> None:
        assert self._controller is not None
        if asked.here is not None:
            asked.here(asked.request).on_complete(lambda response: self._on_decided(asked, attempt, response))
        else:
            self._controller.handle(asked.request).on_complete(lambda each: self._on_decided(asked, attempt, each))

    def _on_decided(self, asked: _Asked, attempt: int, decided: Message | KafkaError) -> None:
        """Take the answer of the controller next door."""
        if attempt != asked.attempt or asked.answer.is_complete:
            return
        if isinstance(decided, KafkaError):
            if decided.code is ErrorCode.NOT_CONTROLLER:
                self._rest(asked)
                return
            decided = error_response(asked.request, decided)
        self._finish(asked, decided)

    def _on_answer(self, asked: _Asked, attempt: int, answer: PeerAnswer) -> None:
        """Take the answer of a controller elsewhere."""
        if attempt != asked.attempt or asked.answer.is_complete:
            return
        if answer is PeerFailure.UNSUPPORTED_VERSION:
            refused = KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The active controller does not know this request.")
            self._finish(asked, error_response(asked.request, refused))
        elif isinstance(answer, PeerFailure) or is_not_controller(answer):
            self._rest(asked)
        elif isinstance(answer, EnvelopeResponse):
            self._finish(asked, _unwrap(asked, answer))
        else:
            self._finish(asked, answer)

    def _rest(self, asked: _Asked) -> None:
        asked.is_under_way = False
        asked.next_attempt_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS
        self._note_due(asked)

    def _finish(self, asked: _Asked, response: Message) -> None:
        del self._waiting[asked]
        asked.answer.complete(response)

    def _attempt_timeout_ms(self, request: Message) -> int:
        """Return how long one connection may keep the request: a heartbeat needs another try within its session."""
        return self._session_timeout_ms // 3 if _is_heartbeat(request) else self._request_timeout_ms

    def _timeout_ms(self, request: Message) -> int:
        if _is_heartbeat(request):
            return self._session_timeout_ms
        timeout_ms: int = getattr(request, "timeout_ms", 0)
        return timeout_ms if timeout_ms > 0 else self._request_timeout_ms


# --- envelopes ------------------------------------------------------------------------------------------------------


def wrap(request: Message, origin: Origin) -> EnvelopeRequest:
    """Return the envelope that carries a client's request to the controller.

    Raises:
        KafkaError: INVALID_REQUEST: it has more entries than are passed on at once, and cannot be passed on in parts.
    """
    key = ApiKey(request.api_key)
    header = RequestHeader(
        request_api_key=key,
        request_api_version=origin.api_version,
        correlation_id=origin.correlation_id,
        client_id=origin.client_id,
    )
    kind, _, name = origin.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name)
    data = bytearray(header.encode(request_header_version(key, origin.api_version)))
    try:
        request.write(origin.api_version, data, [], entries_max=_ENTRIES_MAX)
    except TooManyEntriesError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"The request has more than {_ENTRIES_MAX} entries; send fewer at a time."
        ) from None
    return EnvelopeRequest(
        request_data=bytes(data),
        request_principal=PRINCIPAL_VERSION.to_bytes(2, "big") + principal.encode(PRINCIPAL_VERSION),
        client_host_address=ip_address(origin.client_host.partition("%")[0]).packed,
    )


def _unwrap(asked: _Asked, envelope: EnvelopeResponse) -> Message:
    """Return the response in ``envelope``, or what says that the controller would not open the request."""
    if envelope.error_code != ErrorCode.NONE:
        code = ErrorCode(envelope.error_code)
        logger.warning("the controller refused a forwarded %s: %s", type(asked.request).__name__, code.name)
        known = (
            ErrorCode.UNSUPPORTED_VERSION if code is ErrorCode.UNSUPPORTED_VERSION else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        return error_response(asked.request, KafkaError(known))
    assert asked.origin is not None
    key, version = ApiKey(asked.request.api_key), asked.origin.api_version
    data = envelope.response_data or b""
    try:
        _, position = ResponseHeader.decode_from(data, response_header_version(key, version))
        return response_type(key).decode(data, version, position)
    except ProtocolError as error:
        logger.warning("the controller's answer to a forwarded %s cannot be read: %s", key.name, error)
        return error_response(asked.request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def is_not_controller(response: Struct) -> bool:
    """Return whether any error in ``response`` is NOT_CONTROLLER: it was asked of the wrong node."""
    for name in response.fields:
        value = getattr(response, name)
        if name == "error_code":
            if value == ErrorCode.NOT_CONTROLLER:
                return True
        elif isinstance(value, Struct):
            if is_not_controller(value):
                return True
        elif isinstance(value, list) and any(isinstance(each, Struct) and is_not_controller(each) for each in value):
            return True
    return False


def _lane_of(asked: _Asked) -> str:
    """Heartbeats never wait behind a slow request, nor does a node's own request behind a client's."""
    if asked.envelope is not None:
        return "forwarding"
    return "heartbeat" if _is_heartbeat(asked.request) else "controller"


def _is_heartbeat(request: Message) -> bool:
    return isinstance(request, BrokerHeartbeatRequest | BrokerRegistrationRequest)


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def _timed_out(asked: _Asked) -> KafkaError:
    if asked.origin is None:
        return KafkaError(ErrorCode.NOT_CONTROLLER, "No active controller answered in time.")
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No active controller answered in time.")
