"""What the metrics page shows, taken on the node's loop in slices that keep no request waiting.

The loop only copies numbers; names, labels and text are made on the admin thread. A metadata image never changes, so
it is handed over as it is and counted there as well.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.controller.metrics import ControllerMetrics
from ottla.membership.broker_lifecycle import BrokerState
from ottla.metadata.image import MetadataImage
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.traffic import TopicTraffic
from ottla.network.connection_manager import ConnectionManager
from ottla.node.node import Node
from ottla.purgatory.steps import run_to_end
from ottla.replication.partition import Partition
from ottla.replication.replica_manager import ReplicaManager
from ottla.types import LeaderEpoch, NodeId, Offset
from ottla.wire.messages.list_groups import ListGroupsRequest

PARTITIONS_PER_SLICE = 250


class PartitionSample(NamedTuple):
    """One replica on this node."""

    topic: str
    partition: int
    is_leader: bool
    replica_count: int
    in_sync_count: int
    min_in_sync: int
    size_bytes: int
    log_start_offset: Offset
    log_end_offset: Offset
    segment_count: int


class RequestSample(NamedTuple):
    """One API in one version on one kind of listener."""

    api: str
    version: int
    requests: int
    errors: int
    total_time_ms: int
    request_bytes: int
    response_bytes: int


class RequestMemorySample(NamedTuple):
    """What requests of clients hold on their way in, and what came of its bound."""

    limit_bytes: int
    held_bytes: int
    connections_waiting: int
    waits: int
    connections_closed: int
    work_bytes: int
    """Held by work off the loop."""
    work_waits: int


class SliceSample(NamedTuple):
    """Requests that are run a slice at a time, and those with very many entries among them."""

    under_way: int
    slices: int
    large_waiting: int
    large_waits: int


class TlsSample(NamedTuple):
    """What came of TLS, by listener where it is a dictionary."""

    handshakes: dict[str, int]
    failed_handshakes: dict[str, int]
    open_handshakes: int
    reloads: int
    failed_reloads: int
    certificates_end_in_ms: dict[str, int]


class LoginSample(NamedTuple):
    """What came of SASL logins, by listener and mechanism; the mechanism is empty where none was chosen."""

    successes: dict[tuple[str, str], int]
    failures: dict[tuple[str, str], int]
    renewals: dict[tuple[str, str], int]
    open_logins: int
    timed_out: int
    expired_sessions: int
    held_bytes: int
    waits: int


class QuorumSample(NamedTuple):
    """The metadata quorum as this node sees it; -1 where there is none."""

    leader_id: NodeId
    epoch: LeaderEpoch
    state: str
    """As Kafka's metric current-state has it: leader, follower, observer, candidate ..."""
    high_watermark: Offset
    log_end_offset: Offset
    voter_count: int


class ReplicationSample(NamedTuple):
    """What the replica manager counted."""

    isr_expansions: int
    isr_shrinks: int
    failed_isr_updates: int
    fetchers_max_lag: int
    failed_partitions: int


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
    offline_directories: tuple[str, ...]
    log_directories: tuple[str, ...]
    requests: list[RequestSample]
    traffic: dict[str, TopicTraffic]
    traffic_total: TopicTraffic
    purgatories: dict[str, int]
    connections: dict[str, int]
    connections_accepted: int
    connections_refused: int
    connections_closed_for_errors: int
    connections_closed_idle: int
    network: NetworkMetrics
    denials: dict[tuple[str, str], int]
    """How often an operation on a kind of resource was refused."""
    throttles: dict[str, tuple[int, int]]
    """How often, and for how many ms in all, clients were held back, by the key of the quota."""
    muted_connections: int
    quota_measurements: dict[str, int]
    request_memory: RequestMemorySample
    slices: SliceSample
    tls: TlsSample
    logins: LoginSample
    fetch_sessions: int
    fetch_session_partitions: int
    fetch_session_evictions: int
    fetch_session_bytes: int
    fetch_session_rejections: int
    groups_by_state: Counter[str]
    partitions: list[PartitionSample] = field(default_factory=list)


def take_snapshot(node: Node, into: list[NodeSnapshot]) -> Iterator[None]:
    """Take a snapshot a slice at a time, each on the node's loop; the finished one is put ``into`` the list."""
    snapshot = _whole_node(node)
    yield
    partitions = list(node.replicas)
    for start in range(0, len(partitions), PARTITIONS_PER_SLICE):
        snapshot.partitions += map(_sample, partitions[start : start + PARTITIONS_PER_SLICE])
        yield
    into.append(snapshot)


def _whole_node(node: Node) -> NodeSnapshot:
    replicas, connections, sessions = node.replicas, node.connections, node.services.fetch_sessions
    steps, large_requests = connections.steps, connections.large_requests
    return NodeSnapshot(
        node_id=node.config.node_id,
        is_broker=node.config.is_broker,
        controller=None if node.controller is None else node.controller.metrics(),
        replication=_sample_replication(node.replicas),
        state=node.state,
        quorum=_sample_quorum(node),
        metadata=node.metadata.image,
        offline_directories=tuple(node.logs.offline_directories()),
        log_directories=tuple(node.logs.directory_ids()),
        requests=[
            RequestSample(
                route.api_name,
                route.version,
                route.requests,
                route.errors,
                route.total_time_ms,
                route.request_bytes,
                route.response_bytes,
            )
            for route in connections.routes
        ],
        traffic={topic: replace(traffic) for topic, traffic in replicas.traffic.by_topic.items()},
        traffic_total=replicas.traffic.total(),
        purgatories={
            "Produce": len(replicas.produce_purgatory),
            "Fetch": len(replicas.fetch_purgatory),
            "Commit": len(replicas.commit_purgatory),
        },
        connections=dict(connections.open_by_listener),
        connections_accepted=connections.accepted_total,
        connections_refused=connections.refused,
        connections_closed_for_errors=connections.closed_for_protocol_errors,
        connections_closed_idle=connections.closed_idle,
        network=node.network_metrics.copy(),
        denials={
            (operation.name, resource_type.name): count
            for (operation, resource_type), count in sorted(node.services.denials.counts.items())
        },
        throttles={
            kind: (counters.count, counters.time_ms)
            for kind, counters in node.services.quotas.throttles.by_kind.items()
        },
        muted_connections=connections.muted,
        quota_measurements=node.services.quotas.measured(),
        request_memory=RequestMemorySample(
            connections.memories.clients.limit_bytes,
            connections.memories.clients.held_bytes,
            connections.memories.clients.waiter_count,
            connections.memories.clients.waits,
            connections.memories.closed_as_slow,
            node.services.work_memory.held_bytes,
            node.services.work_memory.waits,
        ),
        slices=SliceSample(len(steps), steps.slices, len(large_requests), large_requests.waits),
        tls=_sample_tls(node),
        logins=_sample_logins(node.connections),
        fetch_sessions=len(sessions),
        fetch_session_partitions=sessions.partition_count,
        fetch_session_evictions=sessions.evictions,
        fetch_session_bytes=sessions.size_bytes,
        fetch_session_rejections=sessions.rejections,
        groups_by_state=_count_groups(node),
    )


def _sample_logins(connections: ConnectionManager) -> LoginSample:
    authentication = connections.authentication
    counters = sorted(authentication.counters.items())
    return LoginSample(
        {place: each.successes for place, each in counters},
        {place: each.failures for place, each in counters},
        {place: each.renewals for place, each in counters},
        len(authentication),
        authentication.timed_out,
        authentication.expired_sessions,
        *connections.memories.login_use,
    )


def _sample_tls(node: Node) -> TlsSample:
    metrics, now_ms = node.tls_metrics, node.clock.wall_ms()
    return TlsSample(
        dict(metrics.handshakes),
        dict(metrics.failed_handshakes),
        metrics.open_handshakes,
        metrics.reloads,
        metrics.failed_reloads,
        {listener: ends_ms - now_ms for listener, ends_ms in metrics.certificates_expire_at_ms.items()},
    )


def _sample(partition: Partition) -> PartitionSample:
    log = partition.log
    return PartitionSample(
        partition.topic_partition.topic,
        partition.topic_partition.partition,
        partition.is_leader,
        len(partition.isr.replicas),
        len(partition.isr.in_sync),
        log.config.min_insync_replicas,
        log.size_bytes,
        log.log_start_offset,
        log.log_end_offset,
        len(log.segments()),
    )


def _sample_quorum(node: Node) -> QuorumSample:
    leader_id, epoch = node.raft.leader_and_epoch
    high_watermark = node.raft.high_watermark
    return QuorumSample(
        -1 if leader_id is None else leader_id,
        epoch,
        _state_of(node),
        -1 if high_watermark is None else high_watermark,
        node.raft.log_end_offset,
        len(node.raft.voters.voters),
    )


def _state_of(node: Node) -> str:
    name = type(node.raft.state).__name__.removesuffix("State").lower()
    is_observer = name == "follower" and not node.raft.voters.is_voter(node.raft.local)
    return "observer" if is_observer else name


def _sample_replication(replicas: ReplicaManager) -> ReplicationSample:
    isr = replicas.isr_manager
    fetchers = replicas.fetchers
    return ReplicationSample(isr.expansions, isr.shrinks, isr.failed_updates, fetchers.max_lag, fetchers.failed_count)


def _count_groups(node: Node) -> Counter[str]:
    return Counter(group.group_state for group in run_to_end(node.groups.list_groups(ListGroupsRequest())).groups)
