"""`ControllerChannel`: sends requests to the active controller, on whichever node it is.

In the same process when this node's own controller is the active one, else over the network to the controller listener
of the quorum's leader. A client's request is forwarded in an Envelope, with its principal (KIP-590). After
NOT_CONTROLLER or a broken connection the request is sent again, to the next leader when there is one, until it times
out. While there is no leader it is not sent. Only the client's own connection waits for the response (a minute in
Kafka). The response is that of the request's API, also when the controller rejected the request: the error is in its
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
from ottla.peers.channel import PeerChannel, PeerFailure, PeerResult
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
"""Backoff before the same leader is sent the request again; a new leader is sent it at once."""

PRINCIPAL_VERSION: Final = 0

_ENTRIES_MAX: Final = 10_000
"""Entries of a request that is forwarded whole: as many partitions, for example, as one request may create."""
_SCANNED_PER_MS: Final = 100
"""Pending requests are scanned at most once in a millisecond for this many: some 3% of the node's time."""

logger = logging.getLogger(__name__)

LocalHandler = Callable[[Message], Delayed[Message]]
"""Handles a request on this node when its controller is the active one."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a forwarded request: what its Envelope carries of the client."""

    api_version: int
    correlation_id: int
    client_id: str | None
    principal: str
    client_host: str
    is_token_authenticated: bool = False


class ControllerChannel(Protocol):
    """Connection to the active controller, on whichever node it is."""

    def send(self, request: Message) -> Delayed[Message]:
        """Send a request of this node itself; the result is the response class of its API.

        NOT_CONTROLLER when no active controller could be reached in time.
        """

    def forward(self, request: Message, origin: Origin, local_handler: LocalHandler | None = None) -> Delayed[Message]:
        """Forward a client's request; REQUEST_TIMED_OUT when no active controller responded in time.

        ``local_handler`` handles it instead of the controller when the active controller is in this process.
        """

    def handle_locally(
        self, request: Message, mutations: Mutations | None = None, *, requester: str | None = None
    ) -> Delayed[Message]:
        """Have this node's own controller handle the request; NOT_CONTROLLER when it is not the active one.

        ``mutations`` bounds the changes of a request for topics; None for no bound. ``requester`` is the principal of
        a request for delegation tokens.
        """

    @property
    def active_controller_id(self) -> NodeId | None:
        """Node id of the active controller; None while there is none."""


class _PendingRequest:
    """One request without a response."""

    __slots__ = ("attempt", "deadline_ms", "envelope", "is_in_flight", "local_handler", "next_attempt_ms", "origin",
                 "request", "response", "sent_to")  # fmt: skip

    def __init__(
        self, request: Message, origin: Origin | None, local_handler: LocalHandler | None, deadline_ms: int
    ) -> None:
        self.request = request
        self.origin = origin
        self.local_handler = local_handler
        self.deadline_ms = deadline_ms
        # Encoded at once: the frame that a client's request is a view on does not last.
        self.envelope = None if origin is None else wrap(request, origin)
        self.response: Delayed[Message] = Delayed()
        self.attempt = 0
        self.is_in_flight = False
        self.next_attempt_ms = 0
        self.sent_to: LeaderAndEpoch | None = None


class NodeToControllerChannel:
    """See the module.

    Args of the constructor:
        controller: this node's own; None on a broker.
        leader: returns the leader of the quorum.
        leader_endpoint: returns the address of the leader's controller listener; None while that is unknown.
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
        self._pending: dict[_PendingRequest, None] = {}
        self._due_ms = NEVER_MS
        """Deadline of the first pending request, or earlier."""
        self._next_scan_ms = 0
        """When the pending requests may be scanned again."""
        self._leader_seen: LeaderAndEpoch | None = None
        self._was_active = False

    # --- ControllerChannel

    def send(self, request: Message) -> Delayed[Message]:
        """See `ControllerChannel.send`."""
        return self._enqueue(
            _PendingRequest(request, None, None, self._clock.monotonic_ms() + self._timeout_ms(request))
        )

    def forward(self, request: Message, origin: Origin, local_handler: LocalHandler | None = None) -> Delayed[Message]:
        """See `ControllerChannel.forward`."""
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms(request)
        return self._enqueue(_PendingRequest(request, origin, local_handler, deadline_ms))

    def handle_locally(
        self, request: Message, mutations: Mutations | None = None, *, requester: str | None = None
    ) -> Delayed[Message]:
        """See `ControllerChannel.handle_locally`."""
        if self._controller is None:
            return Delayed.of(error_response(request, _not_controller()))

        def to_response(result: Message | KafkaError) -> Message:
            return error_response(request, result) if isinstance(result, KafkaError) else result

        return self._controller.handle(request, mutations, requester=requester).then(to_response)

    @property
    def active_controller_id(self) -> NodeId | None:
        return self._leader().leader_id

    def tick(self, now_ms: int) -> int | None:
        """Send due requests again, after a change of leader at once; complete those that time out.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        controller = self._controller
        is_active = controller is not None and controller.is_active
        became_active = is_active and not self._was_active
        self._was_active = is_active
        if not self._pending:
            return None
        leader = self._leader()
        due_ms = max(self._due_ms, self._next_scan_ms)
        if now_ms < due_ms and leader == self._leader_seen and not became_active:
            return due_ms
        self._leader_seen, self._due_ms = leader, NEVER_MS
        for pending in list(self._pending):
            if pending.response.is_complete:
                continue
            if now_ms >= pending.deadline_ms:
                self._finish(pending, error_response(pending.request, _timed_out(pending)))
            elif pending.sent_to is not None and pending.sent_to != leader and leader.leader_id is not None:
                # The former leader cannot commit anything any more.
                self._attempt(pending, now_ms)
            elif not pending.is_in_flight and (became_active or now_ms >= pending.next_attempt_ms):
                self._attempt(pending, now_ms)
            self._note_due(pending)
        self._next_scan_ms = now_ms + len(self._pending) // _SCANNED_PER_MS
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is due; a change of leader arrives with bytes of a peer, which cause a tick as well."""
        return max(self._due_ms, self._next_scan_ms) if self._pending else None

    def _note_due(self, pending: _PendingRequest) -> None:
        if pending in self._pending:
            deadline_ms, next_attempt_ms = pending.deadline_ms, pending.next_attempt_ms
            due_ms = deadline_ms if pending.is_in_flight else min(next_attempt_ms, deadline_ms)
            self._due_ms = min(self._due_ms, due_ms)

    @property
    def _is_active(self) -> bool:
        return self._controller is not None and self._controller.is_active

    # --- one request

    def _enqueue(self, pending: _PendingRequest) -> Delayed[Message]:
        self._pending[pending] = None
        self._attempt(pending, self._clock.monotonic_ms())
        self._note_due(pending)
        return pending.response

    def _attempt(self, pending: _PendingRequest, now_ms: int) -> None:
        pending.attempt += 1
        attempt = pending.attempt
        pending.is_in_flight = True
        pending.sent_to = self._leader()
        if self._is_active:
            self._attempt_locally(pending, attempt)
            return
        if pending.sent_to.leader_id is None:
            # Without a leader a retry costs time in vain, and many requests may be pending.
            pending.is_in_flight, pending.next_attempt_ms = False, pending.deadline_ms
            return
        endpoint = self._leader_endpoint()
        if endpoint is None or pending.sent_to.leader_id == self._node_id:
            self._back_off(pending)
            return
        wrapped = pending.envelope
        self._peers.send(
            endpoint,
            self._listener,
            pending.request if wrapped is None else wrapped,
            timeout_ms=max(1, min(pending.deadline_ms - now_ms, self._attempt_timeout_ms(pending.request))),
            purpose=_connection_of(pending),
        ).on_complete(lambda response: self._on_response(pending, attempt, response))

    def _attempt_locally(self, pending: _PendingRequest, attempt: int) -> None:
        assert self._controller is not None
        if pending.local_handler is not None:
            handled = pending.local_handler(pending.request)
            handled.on_complete(lambda response: self._on_local_result(pending, attempt, response))
        else:
            decided = self._controller.handle(pending.request)
            decided.on_complete(lambda result: self._on_local_result(pending, attempt, result))

    def _on_local_result(self, pending: _PendingRequest, attempt: int, result: Message | KafkaError) -> None:
        """Handle the result of the controller in this process."""
        if attempt != pending.attempt or pending.response.is_complete:
            return
        if isinstance(result, KafkaError):
            if result.code is ErrorCode.NOT_CONTROLLER:
                self._back_off(pending)
                return
            result = error_response(pending.request, result)
        self._finish(pending, result)

    def _on_response(self, pending: _PendingRequest, attempt: int, response: PeerResult) -> None:
        """Handle the response of a controller on another node."""
        if attempt != pending.attempt or pending.response.is_complete:
            return
        if response is PeerFailure.UNSUPPORTED_VERSION:
            error = KafkaError(ErrorCode.UNSUPPORTED_VERSION, "The active controller does not know this request.")
            self._finish(pending, error_response(pending.request, error))
        elif isinstance(response, PeerFailure) or is_not_controller(response):
            self._back_off(pending)
        elif isinstance(response, EnvelopeResponse):
            self._finish(pending, _unwrap(pending, response))
        else:
            self._finish(pending, response)

    def _back_off(self, pending: _PendingRequest) -> None:
        pending.is_in_flight = False
        pending.next_attempt_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS
        self._note_due(pending)

    def _finish(self, pending: _PendingRequest, response: Message) -> None:
        del self._pending[pending]
        pending.response.complete(response)

    def _attempt_timeout_ms(self, request: Message) -> int:
        """Return the timeout of one attempt: a heartbeat needs time for another attempt within its session."""
        return self._session_timeout_ms // 3 if _is_heartbeat(request) else self._request_timeout_ms

    def _timeout_ms(self, request: Message) -> int:
        if _is_heartbeat(request):
            return self._session_timeout_ms
        timeout_ms: int = getattr(request, "timeout_ms", 0)
        return timeout_ms if timeout_ms > 0 else self._request_timeout_ms


# --- envelopes ------------------------------------------------------------------------------------------------------


def wrap(request: Message, origin: Origin) -> EnvelopeRequest:
    """Return the envelope that forwards a client's request to the controller.

    Raises:
        KafkaError: INVALID_REQUEST: it has more entries than are forwarded at once, and cannot be split.
    """
    key = ApiKey(request.api_key)
    header = RequestHeader(
        request_api_key=key,
        request_api_version=origin.api_version,
        correlation_id=origin.correlation_id,
        client_id=origin.client_id,
    )
    kind, _, name = origin.principal.partition(":")
    principal = DefaultPrincipalData(type=kind, name=name, token_authenticated=origin.is_token_authenticated)
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


def _unwrap(pending: _PendingRequest, envelope: EnvelopeResponse) -> Message:
    """Return the response in ``envelope``, or an error response when the controller rejected the envelope."""
    if envelope.error_code != ErrorCode.NONE:
        code = ErrorCode(envelope.error_code)
        logger.warning("the controller rejected a forwarded %s: %s", type(pending.request).__name__, code.name)
        known = (
            ErrorCode.UNSUPPORTED_VERSION if code is ErrorCode.UNSUPPORTED_VERSION else ErrorCode.UNKNOWN_SERVER_ERROR
        )
        return error_response(pending.request, KafkaError(known))
    assert pending.origin is not None
    key, version = ApiKey(pending.request.api_key), pending.origin.api_version
    data = envelope.response_data or b""
    try:
        _, position = ResponseHeader.decode_from(data, response_header_version(key, version))
        return response_type(key).decode(data, version, position)
    except ProtocolError as error:
        logger.warning("the controller's response to a forwarded %s cannot be read: %s", key.name, error)
        return error_response(pending.request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))


def is_not_controller(response: Struct) -> bool:
    """Return whether any error in ``response`` is NOT_CONTROLLER: the request went to the wrong node."""
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


def _connection_of(pending: _PendingRequest) -> str:
    """Return the purpose of the connection: heartbeats wait for no other request, and own requests for no client's."""
    if pending.envelope is not None:
        return "forwarding"
    return "heartbeat" if _is_heartbeat(pending.request) else "controller"


def _is_heartbeat(request: Message) -> bool:
    return isinstance(request, BrokerHeartbeatRequest | BrokerRegistrationRequest)


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "This is not the correct controller for this cluster.")


def _timed_out(pending: _PendingRequest) -> KafkaError:
    code = ErrorCode.NOT_CONTROLLER if pending.origin is None else ErrorCode.REQUEST_TIMED_OUT
    return KafkaError(code, "No active controller responded in time.")
