"""The numbers on the metrics page, taken on the node's loop in slices that delay no request.

The loop only copies numbers; names, labels and text are formatted on the admin thread. A metadata image is immutable,
so it is handed over as it is and counted there as well. The samples are the packages' own (their ``metrics.py``).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ottla.client_metrics.metrics import ClientMetricsSample, copy_pushed, sample_client_metrics
from ottla.controller.metrics import ControllerMetrics
from ottla.coordinator.metrics import CoordinatorsSample
from ottla.groups.metrics import GroupCounts
from ottla.log.cleaner.log_cleaner import CleanerSample
from ottla.log.metrics import LogDirectorySample, sample_cleaner
from ottla.membership.broker_lifecycle import BrokerState
from ottla.metadata.image import MetadataImage
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.tls import TlsSample, sample_tls
from ottla.metrics.traffic import TrafficSample, sample_traffic
from ottla.network.metrics import (
    AuthenticationSample,
    ConnectionSample,
    RequestMemorySample,
    RequestSample,
    SliceSample,
    sample_authentication,
    sample_connections,
    sample_request_memory,
    sample_requests,
    sample_slices,
)
from ottla.node.node import Node
from ottla.raft.metrics import QuorumSample, sample_quorum
from ottla.replication.metrics import (
    FetchSessionSample,
    PartitionSample,
    ReplicasSample,
    ReplicationSample,
    sample_fetch_sessions,
    sample_partition,
    sample_purgatories,
    sample_replication,
)
from ottla.security.metrics import QuotaSample, sample_denials, sample_throttles
from ottla.share_partitions.metrics import ShareSample, add_share_partitions, sample_share
from ottla.transactions.metrics import TransactionSample
from ottla.types import NodeId

PARTITIONS_PER_SLICE = 250


@dataclass(slots=True, kw_only=True)
class NodeSnapshot:
    """A node's numbers at (nearly) one moment."""

    node_id: NodeId
    is_broker: bool
    controller: ControllerMetrics | None
    replication: ReplicationSample
    state: BrokerState
    quorum: QuorumSample
    metadata: MetadataImage
    directories: LogDirectorySample
    cleaner: CleanerSample
    requests: Sequence[RequestSample]
    traffic: TrafficSample
    purgatories: dict[str, int]
    connections: ConnectionSample
    network: NetworkMetrics
    denials: dict[tuple[str, str], int]
    """How often an operation on a kind of resource was denied."""
    quotas: QuotaSample
    request_memory: RequestMemorySample
    slices: SliceSample
    tls: TlsSample
    authentication: AuthenticationSample
    fetch_sessions: FetchSessionSample
    share: ShareSample
    transactions: TransactionSample
    client_metrics: ClientMetricsSample
    coordinators: CoordinatorsSample
    groups: GroupCounts = field(default_factory=Counter)
    partitions: list[PartitionSample] = field(default_factory=list)

    @property
    def replicas(self) -> ReplicasSample:
        """All replicas, compared with the metadata's assignments to the node."""
        return ReplicasSample(self.node_id, self.metadata, self.partitions, bool(self.directories.offline))


def take_snapshot(node: Node, into: list[NodeSnapshot]) -> Iterator[None]:
    """Take a snapshot slice by slice, each on the node's loop; append the finished snapshot to ``into``."""
    snapshot = _whole_node(node)
    yield
    partitions = list(node.replicas)
    for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
        snapshot.partitions += map(sample_partition, partitions[start : start + PARTITIONS_PER_SLICE])
        yield
    yield from node.groups.count_groups(snapshot.groups)
    yield from add_share_partitions(node.services.share_partitions, snapshot.share)
    yield from copy_pushed(node.services.client_metrics, snapshot.client_metrics.pushed)
    into.append(snapshot)


def _whole_node(node: Node) -> NodeSnapshot:
    replicas, connections, services = node.replicas, node.connections, node.services
    return NodeSnapshot(
        node_id=node.config.node_id,
        is_broker=node.config.is_broker,
        controller=None if node.controller is None else node.controller.metrics(),
        replication=sample_replication(replicas),
        state=node.state,
        quorum=sample_quorum(node.raft),
        metadata=node.metadata.image,
        directories=LogDirectorySample(tuple(node.logs.directory_ids()), tuple(node.logs.offline_directories())),
        cleaner=sample_cleaner(node.logs),
        requests=sample_requests(connections),
        traffic=sample_traffic(replicas.traffic),
        purgatories=sample_purgatories(replicas),
        connections=sample_connections(connections),
        network=node.network_metrics.copy(),
        denials=sample_denials(services.denials),
        quotas=QuotaSample(sample_throttles(services.quotas.throttles), services.quotas.measured()),
        request_memory=sample_request_memory(connections, services),
        slices=sample_slices(connections),
        tls=sample_tls(node.tls_metrics, node.clock.wall_ms()),
        authentication=sample_authentication(connections),
        fetch_sessions=sample_fetch_sessions(services.fetch_sessions),
        share=sample_share(services.share_partitions),
        transactions=services.transactions.sample(),
        client_metrics=sample_client_metrics(services.client_metrics),
        coordinators=CoordinatorsSample(
            groups=services.groups.count_partitions(),
            share_groups=services.share_coordinator.count_partitions(),
            transactions=services.transactions.count_partitions(),
        ),
    )
