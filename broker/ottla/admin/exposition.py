"""A snapshot as Prometheus metrics, under the names that the JMX exporter gives to Kafka's.

The names are those of Strimzi's rules for the exporter (``kafka_<domain>_<type>_<name>``, in lower case, meters as
``_total``), so that dashboards and alerts made for Kafka work. What Kafka has no name for starts with ``ottla_``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from prometheus_client import CollectorRegistry, Metric, ProcessCollector

from ottla.admin.snapshot import (
    LoginSample,
    NodeSnapshot,
    PartitionSample,
    RequestMemorySample,
    RequestSample,
    SliceSample,
    TlsSample,
)
from ottla.controller.metrics import ControllerMetrics
from ottla.metrics.network import NetworkMetrics

Labels = dict[str, str]
Samples = Iterable[tuple[Labels, float]]

_NO_LABELS: Labels = {}


class MetricsPage(CollectorRegistry):
    """What the encoders of prometheus-client ask: the node's families, then the process's."""

    def __init__(self, snapshot: NodeSnapshot, *, loop_delay_s: float) -> None:
        super().__init__()
        self._snapshot = snapshot
        self._loop_delay_s = loop_delay_s
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        yield from node_metrics(self._snapshot, loop_delay_s=self._loop_delay_s)
        yield from self._process.collect()


def node_metrics(snapshot: NodeSnapshot, *, loop_delay_s: float) -> Iterator[Metric]:
    """Yield every family of a node.

    ``loop_delay_s``: how long the node's loop took to answer the page's first question.
    """
    yield _gauge("ottla_loop_delay_seconds", "How long the node's loop took to turn to this page.", loop_delay_s)
    yield from _server(snapshot)
    yield from _request_memory(snapshot.request_memory)
    yield from _slices(snapshot.slices)
    yield from _tls(snapshot.tls)
    yield from _logins(snapshot.logins)
    yield from _quorum(snapshot)
    yield from _requests(snapshot)
    if snapshot.is_broker:
        yield from _traffic(snapshot)
        yield from _replicas(snapshot)
        yield from _logs(snapshot)
        yield from _groups(snapshot)
        yield from _replication(snapshot)
    if snapshot.controller is not None:
        yield from _controller(snapshot.controller)


# --- families ---------------------------------------------------------------------------------------------------


def _server(snapshot: NodeSnapshot) -> Iterator[Metric]:
    yield _gauge("kafka_server_kafkaserver_brokerstate", "State of the broker; 3 is running.", snapshot.state)
    socket_server = "kafka_server_socket_server_metrics"
    yield _family(
        f"{socket_server}_connection_count",
        "Open connections.",
        "gauge",
        (({"listener": name, "networkProcessor": "0"}, count) for name, count in sorted(snapshot.connections.items())),
    )
    yield _counter(f"{socket_server}_connection_creation_total", "Connections accepted.", snapshot.connections_accepted)
    yield _counter("ottla_connections_refused_total", "Connections refused by a limit.", snapshot.connections_refused)
    yield _counter(
        "ottla_connections_closed_for_errors_total",
        "Connections closed because of what came over them.",
        snapshot.connections_closed_for_errors,
    )
    yield _counter(
        "ottla_connections_closed_idle_total",
        "Connections closed because they were silent for too long.",
        snapshot.connections_closed_idle,
    )
    yield from _network(snapshot.network)
    yield _family(
        "ottla_authorization_denials_total",
        "Refusals for want of a permission.",
        "counter",
        (
            ({"operation": operation, "resource": resource}, count)
            for (operation, resource), count in snapshot.denials.items()
        ),
    )
    yield from _throttles(snapshot)
    yield _family(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests that wait.",
        "gauge",
        (({"delayedOperation": name}, count) for name, count in snapshot.purgatories.items()),
    )
    cache = "kafka_server_fetchsessioncache"
    yield _gauge(f"{cache}_numincrementalfetchsessions", "Fetch sessions.", snapshot.fetch_sessions)
    yield _gauge(
        f"{cache}_numincrementalfetchpartitionscached",
        "Partitions of all fetch sessions.",
        snapshot.fetch_session_partitions,
    )
    yield _counter(
        f"{cache}_incrementalfetchsessionevictions_total",
        "Fetch sessions that made room for others.",
        snapshot.fetch_session_evictions,
    )
    yield _gauge(
        "ottla_fetch_session_bytes", "Bytes that fetch sessions take, estimated.", snapshot.fetch_session_bytes
    )
    yield _counter(
        "ottla_fetch_sessions_rejected_total",
        "Fetch sessions that clients did not get, or lost as they grew, for want of capacity.",
        snapshot.fetch_session_rejections,
    )


def _network(network: NetworkMetrics) -> Iterator[Metric]:
    yield _gauge(
        "ottla_unread_answer_bytes", "Bytes of answers in memory that clients have not taken.", network.unread_bytes
    )
    yield _family(
        "ottla_connections_closed_unread_total",
        "Connections closed because clients did not take their answers: for too long, or while memory was short.",
        "counter",
        (({"reason": reason}, network.closed_unread[reason]) for reason in ("idle", "memory")),
    )
    yield _family(
        "ottla_listener_pauses_total",
        "Times that nobody was let in for a moment, for want of descriptors or of room for TLS handshakes.",
        "counter",
        (({"listener": name}, count) for name, count in sorted(network.doors_held.items())),
    )
    yield _counter(
        "ottla_connections_closed_for_memory_total",
        "Connections of clients closed because the node came near its limit of memory.",
        network.closed_for_memory,
    )
    yield _counter(
        "ottla_unexpected_errors_total",
        "Exceptions that no code expected; each cost a connection, or a turn of a part of the node.",
        network.unexpected_errors,
    )


def _throttles(snapshot: NodeSnapshot) -> Iterator[Metric]:
    yield _family(
        "ottla_throttles_total",
        "Requests and connections that a quota held back.",
        "counter",
        (({"quota": kind}, count) for kind, (count, _) in snapshot.throttles.items()),
    )
    yield _family(
        "ottla_throttle_seconds_total",
        "For how long quotas held clients back, in all.",
        "counter",
        (({"quota": kind}, time_ms / 1000) for kind, (_, time_ms) in snapshot.throttles.items()),
    )
    yield _gauge(
        "ottla_connections_muted", "Connections that are not read because of a quota.", snapshot.muted_connections
    )
    yield _family(
        "ottla_quota_measurements",
        "Clients and addresses whose use is measured because they have a limit.",
        "gauge",
        (({"quota": kind}, count) for kind, count in snapshot.quota_measurements.items()),
    )


def _request_memory(memory: RequestMemorySample) -> Iterator[Metric]:
    name = "kafka_network_socketserver_memorypool"
    yield _gauge(f"{name}used", "Bytes that requests on their way in hold.", memory.held_bytes)
    yield _gauge(
        f"{name}available",
        "Bytes that they may hold in addition (queued.max.request.bytes); below 0 while one is larger than its share.",
        memory.limit_bytes - memory.held_bytes,
    )
    yield _gauge(
        "ottla_connections_waiting_for_memory",
        "Connections that are not read: there is no room for their request.",
        memory.connections_waiting,
    )
    yield _counter("ottla_waits_for_memory_total", "Requests that had to wait for room.", memory.waits)
    yield _counter(
        "ottla_connections_closed_for_slow_requests_total",
        "Connections closed because their requests kept memory that others waited for, and brought too little.",
        memory.connections_closed,
    )
    yield _gauge(
        "ottla_work_memory_bytes", "Bytes that work off the loop holds, such as decompression.", memory.work_bytes
    )
    yield _counter(
        "ottla_waits_for_work_memory_total", "Work off the loop that had to wait for memory.", memory.work_waits
    )


def _slices(slices: SliceSample) -> Iterator[Metric]:
    yield _gauge("ottla_requests_in_slices", "Requests that are handled a slice at a time.", slices.under_way)
    yield _counter("ottla_request_slices_total", "Slices of requests that were run between others.", slices.slices)
    yield _gauge(
        "ottla_large_requests_waiting",
        "Requests and responses with more than 1,000 entries that wait until others of their kind are done.",
        slices.large_waiting,
    )
    yield _counter("ottla_large_request_waits_total", "Requests and responses that had to wait so.", slices.large_waits)


def _logins(logins: LoginSample) -> Iterator[Metric]:
    socket_server = "kafka_server_socket_server_metrics"
    for name, help_text, counts in (
        ("successful_authentication", "SASL logins that succeeded.", logins.successes),
        ("failed_authentication", "SASL logins, and renewals of logins, that failed.", logins.failures),
        ("successful_reauthentication", "SASL logins that were renewed.", logins.renewals),
    ):
        labelled = (({"listener": door, "mechanism": mechanism}, count) for (door, mechanism), count in counts.items())
        yield _family(f"{socket_server}_{name}_total", help_text, "counter", labelled)
    yield _counter(
        f"{socket_server}_expired_connections_killed_total",
        "Connections closed because their SASL session was over.",
        logins.expired_sessions,
    )
    yield _gauge("ottla_sasl_logins_open", "Connections that are not logged in yet.", logins.open_logins)
    yield _gauge(
        "ottla_sasl_login_memory_bytes", "Bytes that frames before their login hold on their way in.", logins.held_bytes
    )
    yield _counter(
        "ottla_waits_for_sasl_login_memory_total", "Frames before a login that had to wait for room.", logins.waits
    )
    yield _counter("ottla_sasl_logins_timed_out_total", "Logins that took too long.", logins.timed_out)


def _tls(tls: TlsSample) -> Iterator[Metric]:
    def by_listener(counts: dict[str, int], unit: float = 1) -> Samples:
        return (({"listener": name}, count / unit) for name, count in sorted(counts.items()))

    yield _family(
        "ottla_tls_handshakes_total", "TLS handshakes that succeeded.", "counter", by_listener(tls.handshakes)
    )
    yield _family(
        "ottla_tls_handshakes_failed_total",
        "TLS handshakes that either side refused, or that were not finished in time.",
        "counter",
        by_listener(tls.failed_handshakes),
    )
    yield _gauge("ottla_tls_handshakes_open", "TLS handshakes under way.", tls.open_handshakes)
    yield _counter("ottla_tls_reloads_total", "Times that a listener took new certificates.", tls.reloads)
    yield _counter("ottla_tls_failed_reloads_total", "New certificates that could not be used.", tls.failed_reloads)
    yield _family(
        "ottla_tls_certificate_ends_in_seconds",
        "Time until the first certificate of a listener's chain ends; below 0 behind that.",
        "gauge",
        by_listener(tls.certificates_end_in_ms, 1000),
    )


def _quorum(snapshot: NodeSnapshot) -> Iterator[Metric]:
    quorum = snapshot.quorum
    raft = "kafka_server_raftmetrics"
    yield _family(f"{raft}_current_state", "Role in the quorum.", "unknown", [({"current_state": quorum.state}, 1.0)])
    yield _gauge(f"{raft}_current_leader", "Node id of the leader; -1 without one.", quorum.leader_id)
    yield _gauge(f"{raft}_current_epoch", "Epoch of the quorum.", quorum.epoch)
    yield _gauge(f"{raft}_high_watermark", "First offset that is not committed; -1 unknown.", quorum.high_watermark)
    yield _gauge(f"{raft}_log_end_offset", "Log end offset of the metadata log.", quorum.log_end_offset)
    yield _gauge(f"{raft}_number_of_voters", "Voters of the quorum.", quorum.voter_count)
    provenance = snapshot.metadata.provenance
    metadata = "kafka_server_brokermetadatametrics"
    yield _gauge(
        f"{metadata}_last_applied_record_offset", "Offset of the metadata in use.", provenance.last_contained_offset
    )
    yield _gauge(
        f"{metadata}_last_applied_record_timestamp",
        "When the newest record of the metadata in use was written, in milliseconds.",
        provenance.last_contained_log_time_ms,
    )


def _requests(snapshot: NodeSnapshot) -> Iterator[Metric]:
    name = "kafka_network_requestmetrics"
    versions = (({"request": one.api, "version": str(one.version)}, one.requests) for one in snapshot.requests)
    yield _family(f"{name}_requests_total", "Requests received.", "counter", versions)

    apis = sorted({one.api for one in snapshot.requests})
    figures: dict[str, tuple[str, Callable[[RequestSample], int]]] = {
        f"{name}_totaltimems_count": ("Requests received.", lambda one: one.requests),
        f"{name}_totaltimems_sum": ("Milliseconds from request to response.", lambda one: one.total_time_ms),
        f"{name}_requestbytes_sum": ("Bytes of requests.", lambda one: one.request_bytes),
        "ottla_response_bytes_total": ("Bytes of responses.", lambda one: one.response_bytes),
        "ottla_failed_requests_total": ("Requests refused as a whole.", lambda one: one.errors),
    }
    for full_name, (documentation, value) in figures.items():
        sums = [({"request": api}, sum(value(one) for one in snapshot.requests if one.api == api)) for api in apis]
        yield _family(full_name, documentation, "counter", sums)


_TRAFFIC = {
    "messagesin": ("messages_in", "Records that producers sent."),
    "bytesin": ("bytes_in", "Bytes of the batches that producers sent."),
    "bytesout": ("bytes_out", "Bytes of the batches that consumers and followers read."),
    "totalproducerequests": ("produce_requests", "Partitions in produce requests."),
    "totalfetchrequests": ("fetch_requests", "Partitions in fetch requests that were given records."),
    "failedproducerequests": ("failed_produce_requests", "Partitions in produce requests that failed."),
    "failedfetchrequests": ("failed_fetch_requests", "Partitions in fetch requests that failed."),
}


def _traffic(snapshot: NodeSnapshot) -> Iterator[Metric]:
    """Once for all topics without a label, and once for each topic, as Kafka has them."""
    for name, (attribute, documentation) in _TRAFFIC.items():

        def samples(attribute: str = attribute) -> Samples:
            yield _NO_LABELS, getattr(snapshot.traffic_total, attribute)
            for topic, traffic in sorted(snapshot.traffic.items()):
                yield {"topic": topic}, getattr(traffic, attribute)

        yield _family(f"kafka_server_brokertopicmetrics_{name}_total", documentation, "counter", samples())


def _replicas(snapshot: NodeSnapshot) -> Iterator[Metric]:
    led = [sample for sample in snapshot.partitions if sample.is_leader]
    assigned = sum(
        snapshot.node_id in partition.replicas
        for topic in snapshot.metadata.topics.by_name.values()
        for partition in topic.partitions.values()
    )
    offline = max(0, assigned - len(snapshot.partitions)) if snapshot.offline_directories else 0
    figures = {
        "partitioncount": ("Partitions with a replica here.", len(snapshot.partitions)),
        "leadercount": ("Partitions that this broker leads.", len(led)),
        "offlinereplicacount": ("Replicas on log directories that failed.", offline),
        "underreplicatedpartitions": (
            "Led partitions with a replica out of sync.",
            sum(sample.in_sync_count < sample.replica_count for sample in led),
        ),
        "underminisrpartitioncount": (
            "Led partitions with fewer replicas in sync than min.insync.replicas.",
            sum(sample.in_sync_count < min(sample.min_in_sync, sample.replica_count) for sample in led),
        ),
        "atminisrpartitioncount": (
            "Led partitions with exactly min.insync.replicas in sync.",
            sum(sample.in_sync_count == min(sample.min_in_sync, sample.replica_count) for sample in led),
        ),
    }
    for name, (documentation, value) in figures.items():
        yield _gauge(f"kafka_server_replicamanager_{name}", documentation, value)


_LOG_FIGURES: dict[str, tuple[str, Callable[[PartitionSample], int]]] = {
    "size": ("Bytes of the partition's log.", lambda sample: sample.size_bytes),
    "logstartoffset": ("First offset of the partition's log.", lambda sample: sample.log_start_offset),
    "logendoffset": ("Offset that the next record will get.", lambda sample: sample.log_end_offset),
    "numlogsegments": ("Segments of the partition's log.", lambda sample: sample.segment_count),
}


def _logs(snapshot: NodeSnapshot) -> Iterator[Metric]:
    labels = [{"topic": sample.topic, "partition": str(sample.partition)} for sample in snapshot.partitions]
    for name, (documentation, value) in _LOG_FIGURES.items():
        values = map(value, snapshot.partitions)
        yield _family(f"kafka_log_log_{name}", documentation, "gauge", zip(labels, values, strict=True))
    yield _gauge(
        "kafka_log_logmanager_offlinelogdirectorycount",
        "Log directories that failed.",
        len(snapshot.offline_directories),
    )
    states = {path: 0 for path in snapshot.log_directories} | {path: 1 for path in snapshot.offline_directories}
    yield _family(
        "kafka_log_logmanager_logdirectoryoffline",
        "Whether a log directory has failed.",
        "gauge",
        (({"logDirectory": path}, value) for path, value in states.items()),
    )


_GROUP_STATES = ("Dead", "Empty", "Stable", "PreparingRebalance", "CompletingRebalance")


def _groups(snapshot: NodeSnapshot) -> Iterator[Metric]:
    name = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    yield _gauge(name, "Groups that this broker coordinates.", snapshot.groups_by_state.total())
    for state in _GROUP_STATES:
        yield _gauge(f"{name}{state.lower()}", f"Groups in state {state}.", snapshot.groups_by_state[state])


def _replication(snapshot: NodeSnapshot) -> Iterator[Metric]:
    sample = snapshot.replication
    manager = "kafka_server_replicamanager"
    yield _counter(f"{manager}_isrexpands_total", "Replicas that came into sync again.", sample.isr_expansions)
    yield _counter(f"{manager}_isrshrinks_total", "Replicas that fell out of sync.", sample.isr_shrinks)
    yield _counter(
        f"{manager}_failedisrupdates_total", "Changes of an ISR that the controller refused.", sample.failed_isr_updates
    )
    yield _gauge(
        "kafka_server_replicafetchermanager_maxlag",
        "Records by which the slowest follower here is behind its leader.",
        sample.fetchers_max_lag,
    )
    yield _gauge(
        "kafka_server_replicafetchermanager_failedpartitionscount",
        "Partitions that are not copied any more until their leadership changes.",
        sample.failed_partitions,
    )


_CONTROLLER_FIGURES: dict[str, tuple[str, Callable[[ControllerMetrics], int]]] = {
    "activecontrollercount": ("Whether this node is the active controller.", lambda it: it.is_active),
    "activebrokercount": ("Brokers that are not fenced.", lambda it: it.active_brokers),
    "fencedbrokercount": ("Brokers that are fenced.", lambda it: it.fenced_brokers),
    "controlledshutdownbrokercount": (
        "Brokers whose leaders are being moved away.",
        lambda it: it.controlled_shutdown_brokers,
    ),
    "globaltopiccount": ("Topics of the cluster.", lambda it: it.topics),
    "globalpartitioncount": ("Partitions of the cluster.", lambda it: it.partitions),
    "offlinepartitionscount": ("Partitions without a leader.", lambda it: it.offline_partitions),
    "preferredreplicaimbalancecount": (
        "Partitions that another replica than the preferred one leads.",
        lambda it: it.preferred_replica_imbalance,
    ),
    "lastappliedrecordoffset": ("Offset of the metadata in use.", lambda it: it.last_applied_offset),
    "lastcommittedrecordoffset": ("Offset of the last committed record.", lambda it: it.last_committed_offset),
}

_CLUSTER_FIGURES: dict[str, tuple[str, Callable[[ControllerMetrics], int]]] = {
    "ottla_under_replicated_partitions": (
        "Partitions with a replica out of sync.",
        lambda it: it.under_replicated_partitions,
    ),
    "ottla_under_min_isr_partitions": (
        "Partitions with fewer replicas in sync than min.insync.replicas.",
        lambda it: it.under_min_isr_partitions,
    ),
    "ottla_reassigning_partitions": (
        "Partitions whose replicas are being moved.",
        lambda it: it.reassigning_partitions,
    ),
}


def _controller(metrics: ControllerMetrics) -> Iterator[Metric]:
    """As every controller sees the cluster, active or not (as in Kafka)."""
    for name, (documentation, value) in _CONTROLLER_FIGURES.items():
        yield _gauge(f"kafka_controller_kafkacontroller_{name}", documentation, value(metrics))
    for name, (documentation, value) in _CLUSTER_FIGURES.items():
        yield _gauge(name, documentation, value(metrics))
    states = {"new": metrics.new_replicas, "online": metrics.online_replicas, "offline": metrics.offline_replicas}
    yield _family(
        "ottla_replicas",
        "Replicas of the cluster by state.",
        "gauge",
        (({"state": state}, count) for state, count in states.items()),
    )
    stats = "kafka_controller_controllerstats"
    yield _counter(
        f"{stats}_uncleanleaderelections_total", "Leaders that were not in sync.", metrics.unclean_leader_elections
    )
    yield _counter(
        f"{stats}_electionfromeligibleleaderreplicas_total",
        "Leaders elected from the eligible leader replicas.",
        metrics.elr_leader_elections,
    )
    fenced = {"refused": metrics.refused_probes, "silent": metrics.ended_sessions}
    yield _family(
        "ottla_brokers_fenced_total",
        "Brokers fenced because nobody listened there any more, or because they were silent for a session.",
        "counter",
        (({"reason": reason}, count) for reason, count in fenced.items()),
    )
    yield _family(
        "kafka_controller_kafkacontroller_brokerregistrationstate",
        "10 fenced, 20 shutting down, 30 active.",
        "gauge",
        (({"broker": str(broker)}, state) for broker, state in metrics.broker_registration_states.items()),
    )


# --- one family -------------------------------------------------------------------------------------------------


def _family(name: str, documentation: str, kind: Literal["counter", "gauge", "unknown"], samples: Samples) -> Metric:
    metric = Metric(name.removesuffix("_total") if kind == "counter" else name, documentation, kind)
    for labels, value in samples:
        metric.add_sample(name, labels, value)
    return metric


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return _family(name, documentation, "gauge", [(_NO_LABELS, value)])


def _counter(name: str, documentation: str, value: float) -> Metric:
    return _family(name, documentation, "counter", [(_NO_LABELS, value)])
