"""The request of a fetch round, and the parts of the node that it uses: `handlers.api` implements both.

Rounds are below the handlers, and depend only on these protocols.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ottla.config.node_config import NodeConfig
from ottla.metadata.cache import MetadataCache
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.replication.replica_manager import ReplicaManager
from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
from ottla.security.authorizer import Authorizer
from ottla.security.quotas.charge import Charge
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.fetch import FetchResponse, LeaderIdAndEpoch, NodeEndpoint

FetchResult: TypeAlias = "FetchResponse | Delayed[FetchResult] | Steps[FetchResult] | None"
"""The response, or the `Delayed` or `Steps` that produce it; None while the round waits for more records."""

NameLeader: TypeAlias = Callable[[LeaderIdAndEpoch, list[NodeEndpoint], str, int], None]
"""Fills in the leader of (topic, partition), and adds the endpoint that it advertises to this client (KIP-951)."""


class FetchServices(Protocol):
    """The parts of a node that serve fetches."""

    @property
    def clock(self) -> Clock: ...

    @property
    def config(self) -> NodeConfig: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def replicas(self) -> ReplicaManager: ...

    @property
    def fetch_sessions(self) -> FetchSessionCache: ...

    @property
    def authorizer(self) -> Authorizer: ...


class FetchOrigin(Protocol):
    """One Fetch request: its version, arrival time, quotas and the client's permissions."""

    @property
    def api_version(self) -> int: ...

    @property
    def received_at_ms(self) -> int:
        """Monotonic."""

    @property
    def charge(self) -> Charge | None:
        """The request as quotas charge it to the client; None without quotas."""

    @property
    def services(self) -> FetchServices: ...

    def require_on_topic(self, operation: Operation, topic: str) -> None:
        """Raise unless the client has the permission.

        Raises:
            KafkaError: TOPIC_AUTHORIZATION_FAILED.
        """
