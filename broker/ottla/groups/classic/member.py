"""`ClassicMember`: one consumer (or Connect worker, or schema registry) in a classic group."""

from collections.abc import Container
from dataclasses import dataclass

from ottla.purgatory import Delayed
from ottla.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member: the properties that it sent, its assignment, and the responses that it waits for."""

    member_id: str
    group_instance_id: str | None
    """Set for a static member (KIP-345): it may return under a new member id without a rebalance."""
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    """The protocols (for consumers: assignors) that it supports, the preferred one first, each with its metadata."""
    assignment: bytes = b""
    is_new: bool = False
    """Whether it waits for its first generation: it cannot send heartbeats yet, but its join may time out."""
    awaiting_join: Delayed[JoinGroupResponse] | None = None
    awaiting_sync: Delayed[SyncGroupResponse] | None = None

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether a waiting request proves that it is alive; a new member's does not."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """Return its metadata for a protocol that it supports."""
        return next(protocol.metadata for protocol in self.protocols if protocol.name == protocol_name)

    def vote(self, candidates: Container[str]) -> str:
        """Return the first of its protocols that is a candidate; one is, since every member supports each candidate."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)
