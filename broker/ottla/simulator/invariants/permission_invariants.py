"""`PermissionInvariants`: no node serves a client what its own metadata denies that client.

In runs whose plan has denials, clients are denied topics from time to time.

A request violates the invariant when it was carried out although the same DENY entry was in the metadata of the node
that served it, from before it was sent until after its response arrived. (Ids of entries are never reused.)

Clients do not authenticate at brokers, and nodes need no topic permission among each other: they have ClusterAction.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.node.node import Node
from ottla.peers.channel import PeerResult
from ottla.sasl.registry import MECHANISMS
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.world.cluster import Cluster
from ottla.types import Endpoint, Uuid
from ottla.wire.acl_codes import (
    ANONYMOUS_PRINCIPAL,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
)
from ottla.wire.codec import Message
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

_JAAS: Final = (
    f'{MECHANISMS["PLAIN"].login_module} required username="node" password="node-secret" user_node="node-secret";'
)
OVERRIDES: Final = {
    # Controllers need a principal: until they have read the metadata, they serve super users only.
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": _JAAS,
    "super.users": "User:node",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def everything_allowed() -> Acl:
    """Return the entry that allows every topic that no other entry denies."""
    return Acl(
        ResourceType.TOPIC,
        WILDCARD,
        PatternType.LITERAL,
        ANONYMOUS_PRINCIPAL,
        WILDCARD,
        Operation.ALL,
        PermissionType.ALLOW,
    )


def denial(topic: str, operation: Operation) -> Acl:
    """Return the entry that denies clients ``operation`` on ``topic``."""
    return Acl(
        ResourceType.TOPIC, topic, PatternType.LITERAL, ANONYMOUS_PRINCIPAL, WILDCARD, operation, PermissionType.DENY
    )


class _Sight(NamedTuple):
    """Ids of the DENY entries for a topic in a node's metadata."""

    process: Node | None
    ids: frozenset[Uuid]


class PermissionInvariants:
    """See the module."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.denied_count = 0

    def watched(
        self, endpoint: Endpoint, request: Message, then: Callable[[PeerResult], object]
    ) -> Callable[[PeerResult], object]:
        """Return ``then``, preceded by a check that the node at ``endpoint`` was allowed to serve ``request``."""
        if isinstance(request, ProduceRequest):
            topic, operation = request.topic_data[0].name, Operation.WRITE
        elif isinstance(request, FetchRequest):
            topic, operation = request.topics[0].topic, Operation.READ
        else:
            return then
        before = self._denials(endpoint, topic, operation)

        def checked(response: PeerResult) -> object:
            self._check(endpoint, topic, operation, before, response)
            return then(response)

        return checked

    def _check(
        self, endpoint: Endpoint, topic: str, operation: Operation, before: _Sight, response: PeerResult
    ) -> None:
        code = _outcome(response)
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.denied_count += 1
        if code is not ErrorCode.NONE or not before.ids:
            return
        now = self._denials(endpoint, topic, operation)
        if now.process is before.process and before.ids & now.ids:
            raise InvariantViolation(
                f"NothingDeniedIsServed: {endpoint.host} carried out {operation.name} on {topic}, "
                "which its own metadata denied all the time"
            )

    def _denials(self, endpoint: Endpoint, topic: str, operation: Operation) -> _Sight:
        process = self._cluster.by_host[endpoint.host].process
        if process is None:
            return _Sight(None, frozenset())
        found = process.metadata.image.acls.by_id.items()
        return _Sight(
            process,
            frozenset(
                acl_id
                for acl_id, acl in found
                if acl.permission_type is PermissionType.DENY
                and acl.resource_name == topic
                and acl.operation is operation
            ),
        )

    def is_anything_denied(self) -> bool:
        """Return whether some node that runs still knows of a denial."""
        return any(
            acl.permission_type is PermissionType.DENY
            for place in self._cluster.nodes.values()
            if place.process is not None
            for acl in place.process.metadata.image.acls.by_id.values()
        )


def _outcome(response: PeerResult) -> ErrorCode | None:
    """Return the error code of the one partition in the request; None without a response or records."""
    if isinstance(response, ProduceResponse) and response.responses:
        return ErrorCode(response.responses[0].partition_responses[0].error_code)
    if isinstance(response, FetchResponse) and response.responses:
        data = response.responses[0].partitions[0]
        if data.error_code or data.records:
            return ErrorCode(data.error_code)
    return None
