"""The interface of handlers: `serves` registers one, `RequestContext` is all that it may access.

A handler takes the context and the decoded request and returns the response, a `Delayed` of it, or None for "no
response at all" (Produce with acks=0). It has no state, no clock and does no I/O.

A handler that may take longer than a millisecond is a generator function (`purgatory.steps`) with the same result: it
yields after each entry or a few, and the pipeline runs it in slices. A `Delayed` may have such `Steps` as its value,
too. A handler that does not yield must finish within 5 ms of CPU at every limit;
`tests/broker/network/test_slices.py` measures each handler. Until it has returned, no further request of its connection
is handled, and the request, records included, does not change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from ottla.errors import MESSAGES, ErrorCode, KafkaError
from ottla.ports import ConnectionId
from ottla.purgatory import Delayed
from ottla.purgatory.off_loop import OffLoop
from ottla.purgatory.steps import Steps
from ottla.types import Endpoint, NodeId, Offset, Uuid, host_address
from ottla.wire.acl_codes import ANONYMOUS_PRINCIPAL, CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message

if TYPE_CHECKING:
    from ottla.handlers.services import Services
    from ottla.security.quotas.charge import Charge


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """A result: close the connection, because the protocol has no other way to report ``reason``."""

    reason: str


HandlerResult: TypeAlias = "Message | Delayed[Any] | Steps[Any] | CloseConnection | None"
Handler: TypeAlias = "Callable[[RequestContext, Any], HandlerResult]"
_CLUSTER = ResourceType.CLUSTER
HandlerT = TypeVar("HandlerT", bound=Callable[..., Any])


class ListenerRole(Enum):
    """The role whose APIs a listener serves; the values are those of Kafka's message definitions."""

    BROKER = "broker"
    CONTROLLER = "controller"


class Authenticator(Protocol):
    """A connection's SASL authentication for its two handlers; `network.sasl_authenticator` implements it."""

    @property
    def is_complete(self) -> bool:
        """Whether the client is authenticated; reauthentication does not change that."""

    def choose(self, mechanism: str, *, version: int) -> HandlerResult:
        """Return the result of a SaslHandshake of ``version``."""

    def authenticate(self, token: bytes) -> HandlerResult:
        """Return the result of a SaslAuthenticate."""


@dataclass(slots=True, kw_only=True)
class ConnectionInfo:
    """The client of a connection, and the listener that it is connected to."""

    connection: ConnectionId
    peer: Endpoint
    listener: str
    role: ListenerRole
    security_protocol: str
    local_address: Endpoint | None
    """The address of this node that the peer connected to; None if it is not needed (`advertised_endpoint`)."""
    principal: str = ANONYMOUS_PRINCIPAL
    is_token_authenticated: bool = False
    """The client has authenticated with a delegation token."""
    is_forwarded: bool = False
    """The request came in an Envelope: ``principal`` is its client's, the other fields are those of the broker."""
    heartbeats_of: tuple[NodeId, Offset] | None = None
    """The broker, by id and epoch, whose heartbeats came over this connection."""
    follower_id: NodeId | None = None
    """The broker whose replicas fetch over this connection."""
    client_instance_id: Uuid | None = None
    """The client's id for client metrics, once it has used it on this connection."""
    client_software_name: str = "unknown"
    client_software_version: str = "unknown"
    authenticator: Authenticator | None = None
    """None if the listener has no SASL."""
    host: str = field(init=False)
    """The peer's address as Java writes it, for ACL entries, groups and logs."""

    def __post_init__(self) -> None:
        self.host = host_address(self.peer.host)


@dataclass(slots=True)
class RequestContext:
    """The context of one request; created with positional arguments, since keywords would double its cost."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    connection: ConnectionInfo
    services: "Services"
    received_at_ms: int
    """Monotonic."""
    charge: "Charge | None" = None
    """The cost of the request to the client's quotas; None if there are no quotas."""
    size_bytes: int = 0
    """The size of the request's frame; only set for ``charge``."""

    def off_loop(self) -> OffLoop:
        """Return the executor of this request's work off the loop, which is charged to its client."""
        services, charge = self.services, self.charge
        if charge is None:
            return OffLoop(services.background, services.work_memory, services.clock)
        return OffLoop(services.background, services.work_memory, services.clock, charge.add_work_time)

    def may(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client may perform the operation on the resource; a denial is counted and logged."""
        if self.would_be_allowed(operation, resource_type, name):
            return True
        client = self.connection
        self.services.denials.record_denial(client.principal, client.host, operation, resource_type, name)
        return False

    def would_be_allowed(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return the result of `may` without recording a denial: to filter lists, and for alternative permissions."""
        authorizer = self.services.authorizer
        if not authorizer.is_enabled:
            return True
        client = self.connection
        return authorizer.authorize(client.principal, client.host, operation, resource_type, name)

    def may_on_topic(self, operation: Operation, topic: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, topic)

    def may_on_group(self, operation: Operation, group_id: str) -> bool:
        return self.may(operation, ResourceType.GROUP, group_id)

    def may_on_cluster(self, operation: Operation) -> bool:
        return self.may(operation, _CLUSTER, CLUSTER_NAME)

    def require_on_cluster(self, operation: Operation) -> None:
        """Raise unless the client may perform the operation on the cluster.

        Raises:
            KafkaError: CLUSTER_AUTHORIZATION_FAILED.
        """
        if not self.may_on_cluster(operation):
            raise KafkaError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"Cluster authorization failed: {operation.name} permission is needed.",
            )

    def require_on_group(self, operation: Operation, group_id: str) -> None:
        """Raise unless the client may perform the operation on the group.

        Raises:
            KafkaError: GROUP_AUTHORIZATION_FAILED.
        """
        if not self.may_on_group(operation, group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.GROUP_AUTHORIZATION_FAILED])

    def require_on_topic(self, operation: Operation, topic: str) -> None:
        """Raise unless the client may perform the operation on the topic.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED.
        """
        if not self.may_on_topic(operation, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, MESSAGES[ErrorCode.TOPIC_AUTHORIZATION_FAILED])


@dataclass(frozen=True, slots=True)
class Served:
    """The handler of one API, and the versions that it serves."""

    api_key: int
    first_version: int
    last_version: int
    handler: Handler
    has_few_entries: bool = False


SERVED: dict[int, Served] = {}
"""Every API whose handler module has been imported; `handlers.catalog` imports them on first use."""


def serves(*, api_key: int, versions: range, has_few_entries: bool = False) -> Callable[[HandlerT], HandlerT]:
    """Register a handler for ``api_key``.

    Args:
        api_key: of the API.
        versions: its stop is one past the last version.
        has_few_entries: the request is handled without yielding, since legitimate requests list few entries. A request
            that is too large to be decoded without yielding fails with INVALID_REQUEST before it reaches the handler.
    """

    def register(handler: HandlerT) -> HandlerT:
        assert api_key not in SERVED, f"API key {api_key} has a handler already"
        SERVED[api_key] = Served(api_key, versions.start, versions.stop - 1, handler, has_few_entries)
        return handler

    return register
