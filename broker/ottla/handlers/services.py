"""The parts of a node that handlers use. One object per node, created by `node.node`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.handlers.topic_creation_errors import TopicCreationErrors
from ottla.ports import Background, Clock, ConnectionId, Random
from ottla.types import Uuid

if TYPE_CHECKING:
    from ottla.client_metrics.manager import ClientMetricsManager
    from ottla.config.node_config import NodeConfig
    from ottla.groups.coordinator import GroupCoordinator
    from ottla.log.manager import LogManager
    from ottla.membership.controller_channel import ControllerChannel
    from ottla.metadata.cache import MetadataCache
    from ottla.metadata.records import MetadataRecord
    from ottla.purgatory.memory_budget import MemoryBudget
    from ottla.raft.client import RaftClient
    from ottla.replication.replica_manager import ReplicaManager
    from ottla.replication.sessions.fetch_session_cache import FetchSessionCache
    from ottla.security.authorizer import Authorizer
    from ottla.security.delegation_tokens import DelegationTokens
    from ottla.security.denials import Denials
    from ottla.security.quotas.client_quotas import ClientQuotas
    from ottla.share_partitions.manager import SharePartitionManager
    from ottla.share_state.coordinator import ShareCoordinator
    from ottla.transactions.coordinator import TransactionCoordinator
    from ottla.transactions.producer_ids import ProducerIds
    from ottla.transactions.verifier import TransactionVerifier


@dataclass(slots=True, kw_only=True)
class Services:
    """The parts of a node; each part is the only owner of its state."""

    clock: Clock
    random: Random
    background: Background
    """Work off the loop; handlers wait for it with `ottla.purgatory.in_background`."""
    work_memory: "MemoryBudget"
    """Bounds the memory of such work, over the whole node."""
    config: "NodeConfig"
    cluster_id: str
    metadata: "MetadataCache"
    raft: "RaftClient[MetadataRecord]"
    controller: "ControllerChannel"
    logs: "LogManager"
    replicas: "ReplicaManager"
    fetch_sessions: "FetchSessionCache"
    groups: "GroupCoordinator"
    transactions: "TransactionCoordinator"
    transaction_verifier: "TransactionVerifier"
    share_coordinator: "ShareCoordinator"
    producer_ids: "ProducerIds"
    authorizer: "Authorizer"
    denials: "Denials"
    quotas: "ClientQuotas"
    client_metrics: "ClientMetricsManager"
    delegation_tokens: "DelegationTokens"
    share_partitions: "SharePartitionManager"
    topics_in_flight: set[str] = field(default_factory=set)
    """Topics whose automatic creation has been requested from the controller, without a response so far."""
    topic_creation_errors: TopicCreationErrors = field(default_factory=TopicCreationErrors)
    """Why internal topics of streams groups could not be created."""
    check_tls: Callable[[Mapping[str, str]], None] = lambda _: None
    """Raises ConfigurationError if the certificates in these properties cannot be used."""

    def on_connection_ended(self, connection: ConnectionId, client_instance_id: Uuid | None) -> None:
        """Remove the client metrics and the share sessions of a client's connection."""
        self.client_metrics.remove_instance_of(connection, client_instance_id)
        self.share_partitions.on_connection_ended(connection)
