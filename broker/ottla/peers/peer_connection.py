"""`PeerConnection`: state of a `PeerClient`'s connection to one endpoint, with its unsent and in-flight requests."""

from collections import deque
from enum import Enum

from ottla.errors import ErrorCode, ProtocolError
from ottla.peers.channel import PeerResult
from ottla.peers.frames import FrameReader
from ottla.peers.sasl_client import SaslClient
from ottla.peers.versioned_api import VersionedApi
from ottla.ports import ConnectionId
from ottla.purgatory import Delayed
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.codec.primitives import skip_header_tags
from ottla.wire.messages.registry import ApiKey

_API_VERSIONS = ApiKey.API_VERSIONS  # a constant of the module: the attribute look-up costs as much as a call


class State(Enum):
    """State of a peer connection."""

    DOWN = "no connection"
    CONNECTING = "the connection is not established yet"
    AGREEING = "ApiVersions was sent"
    AUTHENTICATING = "the SASL exchange is in progress"
    UP = "requests may be sent"


class Pending:
    """One request with its result."""

    __slots__ = ("api", "correlation_id", "deadline_ms", "request", "result")

    def __init__(self, request: Message, deadline_ms: int) -> None:
        self.request = request
        self.deadline_ms = deadline_ms
        self.api: VersionedApi
        self.correlation_id = -1
        self.result: Delayed[PeerResult] = Delayed()


class PeerConnection:
    """A connection to one endpoint for one purpose, established or not."""

    __slots__ = (
        "apis",
        "attempt_started_ms",
        "connection",
        "earliest_deadline_ms",
        "endpoint",
        "failed_attempts",
        "in_flight",
        "is_up",
        "last_active_ms",
        "listener",
        "may_send",
        "next_attempt_ms",
        "purpose",
        "reader",
        "sasl",
        "state",
        "unsent",
        "versions",
    )

    def __init__(self, endpoint: Endpoint, listener: str, purpose: str) -> None:
        self.endpoint = endpoint
        self.listener = listener
        self.purpose = purpose
        self.state = State.DOWN
        self.is_up = False
        """Whether the state is UP; checked for every request."""
        self.connection: ConnectionId = 0
        self.reader: FrameReader | None = None
        self.versions: dict[int, tuple[int, int]] = {}
        self.apis: dict[int, VersionedApi] = {}
        """By API key, the APIs that were requested over this connection."""
        self.unsent: deque[Pending] = deque()
        self.in_flight: deque[Pending] = deque()
        self.may_send = True
        self.failed_attempts = 0
        self.next_attempt_ms = 0
        self.sasl: SaslClient | None = None
        self.attempt_started_ms = 0
        self.last_active_ms = 0
        self.earliest_deadline_ms: int | None = None
        """At most the deadline of every request that waits."""

    @property
    def reauthenticate_at_ms(self) -> int | None:
        """When to re-authenticate; None while the connection is not up, or if its session does not expire."""
        return self.sasl.renew_at_ms if self.sasl is not None and self.is_up else None

    def waiting(self) -> list[Pending]:
        return [*self.in_flight, *self.unsent]

    def version_for(self, request: Message) -> int | None:
        """Return the highest version that both sides support."""
        offered = self.versions.get(request.api_key)
        if offered is None:
            return None
        first, last = request.versions
        if request.latest_version_unstable:
            last -= 1
        version = min(last, offered[1])
        return version if version >= max(first, offered[0]) else None

    def take_response(self, frame: memoryview) -> tuple[Pending, Message]:
        """Decode ``frame``; return the oldest in-flight request, which is removed, and its response.

        Raises:
            ProtocolError: the frame is not a response to that request.
        """
        if not self.in_flight:
            raise ProtocolError("a response without a request")
        pending = self.in_flight[0]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if correlation_id != pending.correlation_id:
            raise ProtocolError(f"response {correlation_id} instead of {pending.correlation_id}")
        api = pending.api
        position, version = 4, api.version
        if api.has_flexible_response_header:
            position = skip_header_tags(frame, position)
        if api.api_key is _API_VERSIONS:
            # A peer that does not support the version responds in version 0 (KIP-511), with the error code first too.
            is_rejected = int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
            version = 0 if is_rejected else version
        response = api.response_type.decode(frame, version, position)
        self.in_flight.popleft()
        return pending, response
