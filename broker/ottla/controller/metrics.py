"""`ControllerMetrics`: the state of the cluster for operators, as plain numbers, at one moment.

The names are those of the attributes of kafka.controller:type=KafkaController in Kafka 4.3, as far as Kafka has them.
"""

from dataclasses import dataclass
from typing import Final

from ottla.controller.configs import ConfigControl
from ottla.controller.partition_index import NOWHERE
from ottla.controller.state import ControllerState
from ottla.metadata.cluster import BrokerRegistration
from ottla.metadata.life_cycles import ReplicaState, replica_state
from ottla.metadata.topics import NO_LEADER
from ottla.metrics.registry import Rows, by_label, counter, gauge
from ottla.types import Uuid

REGISTRATION_FENCED, REGISTRATION_CONTROLLED_SHUTDOWN, REGISTRATION_ACTIVE = 10, 20, 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerMetrics:
    """Every controller has them, active or standby; all but ``is_active`` and the counters follow the metadata.

    Attributes:
        is_active: ActiveControllerCount, 0 or 1.
        active_brokers: ActiveBrokerCount: registered, not fenced (those in controlled shutdown included).
        fenced_brokers: FencedBrokerCount.
        controlled_shutdown_brokers: ControlledShutdownBrokerCount.
        topics: GlobalTopicCount.
        partitions: GlobalPartitionCount.
        offline_partitions: OfflinePartitionsCount: without a leader.
        preferred_replica_imbalance: PreferredReplicaImbalanceCount: not led by the first replica.
        under_replicated_partitions: some replica is not in sync.
        under_min_isr_partitions: fewer in sync than min.insync.replicas.
        reassigning_partitions: replicas are being added or removed.
        offline_replicas: on a broker that is fenced or unregistered, or in an offline directory
            (`ReplicaState.OFFLINE`).
        new_replicas: being added by a reassignment and not in sync yet (`ReplicaState.NEW`).
        online_replicas: all others (`ReplicaState.ONLINE`).
        unclean_leader_elections: UncleanLeaderElectionsPerSec's count, since this process started.
        elr_leader_elections: ElectionFromEligibleLeaderReplicasPerSec's count, since this process started.
        ended_sessions: brokers fenced because their session timed out (not in Kafka).
        failed_probes: brokers fenced because a probe of their listener had the connection refused (not in Kafka).
        failed_pings: brokers fenced because they did not respond, though connected (not in Kafka).
        unsteady_brokers: brokers that returned lately after they had not responded (`BrokerProbes`; not in Kafka).
        last_applied_offset: LastAppliedRecordOffset.
        last_committed_offset: LastCommittedRecordOffset.
        broker_registration_states: BrokerRegistrationState by id: 10 fenced, 20 controlled shutdown, 30 active.
    """

    is_active: int
    active_brokers: int
    fenced_brokers: int
    controlled_shutdown_brokers: int
    topics: int
    partitions: int
    offline_partitions: int
    preferred_replica_imbalance: int
    under_replicated_partitions: int
    under_min_isr_partitions: int
    reassigning_partitions: int
    offline_replicas: int
    new_replicas: int
    online_replicas: int
    unclean_leader_elections: int
    elr_leader_elections: int
    ended_sessions: int
    failed_probes: int
    failed_pings: int
    unsteady_brokers: int
    last_applied_offset: int
    last_committed_offset: int
    broker_registration_states: dict[int, int]


@dataclass(slots=True)
class ControllerCounters:
    """Counters of the active controller that the metadata does not have. See `ControllerMetrics`."""

    ended_sessions: int = 0
    failed_probes: int = 0
    failed_pings: int = 0


def controller_metrics(
    state: ControllerState,
    configs: ConfigControl,
    counters: ControllerCounters,
    *,
    is_active: bool,
    unsteady_brokers: int,
    committed_offset: int,
) -> ControllerMetrics:
    """Compute the metrics from the newest state, in time that grows with brokers and with impaired partitions."""
    brokers, index = state.image.cluster.brokers, state.index
    fenced = sum(broker.is_fenced for broker in brokers.values())
    offline, new = _offline_replicas(state), _new_replicas(state)
    return ControllerMetrics(
        is_active=int(is_active),
        active_brokers=len(brokers) - fenced,
        fenced_brokers=fenced,
        controlled_shutdown_brokers=sum(
            broker.in_controlled_shutdown and not broker.is_fenced for broker in brokers.values()
        ),
        topics=len(state.image.topics.by_id),
        partitions=index.partition_count,
        offline_partitions=len(index.led.get(NO_LEADER, NOWHERE)),
        preferred_replica_imbalance=len(index.imbalanced),
        under_replicated_partitions=len(index.under_replicated),
        under_min_isr_partitions=_under_min_isr(state, configs),
        reassigning_partitions=len(index.reassigning),
        offline_replicas=offline,
        new_replicas=new,
        online_replicas=sum(index.replica_counts.values()) - offline - new,
        unclean_leader_elections=state.unclean_elections,
        elr_leader_elections=state.elr_elections,
        ended_sessions=counters.ended_sessions,
        failed_probes=counters.failed_probes,
        failed_pings=counters.failed_pings,
        unsteady_brokers=unsteady_brokers,
        last_applied_offset=state.image.provenance.last_contained_offset,
        last_committed_offset=committed_offset,
        broker_registration_states={
            broker_id: _registration_state(broker) for broker_id, broker in sorted(brokers.items())
        },
    )


def _under_min_isr(state: ControllerState, configs: ConfigControl) -> int:
    """Count partitions under min ISR; called every few seconds, and most are counted when one broker of three fails."""
    by_id = state.image.topics.by_id
    min_isr: dict[Uuid, int] = {}
    count = 0
    for topic_id, number in state.index.under_replicated:
        topic = by_id[topic_id]
        if topic_id not in min_isr:
            min_isr[topic_id] = configs.min_insync_replicas(topic.name)
        partition = topic.partitions[number]
        count += len(partition.isr) < min(min_isr[topic_id], len(partition.replicas))
    return count


def _offline_replicas(state: ControllerState) -> int:
    brokers = state.image.cluster.brokers
    offline = 0
    for (broker_id, directory), count in state.index.replica_counts.items():
        broker = brokers.get(broker_id)
        if broker is None or broker.is_fenced or not broker.has_online_directory(directory):
            offline += count
    return offline


def _new_replicas(state: ControllerState) -> int:
    cluster = state.image.cluster
    return sum(
        replica_state(partition, broker_id, cluster) is ReplicaState.NEW
        for _, _, partition in state.at(state.index.reassigning)
        for broker_id in partition.adding_replicas
    )


def _registration_state(broker: BrokerRegistration) -> int:
    if broker.is_fenced:
        return REGISTRATION_FENCED
    return REGISTRATION_CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else REGISTRATION_ACTIVE


_CONTROLLER: Final = "kafka_controller_kafkacontroller"
_STATS: Final = "kafka_controller_controllerstats"

ROWS: Final[Rows[ControllerMetrics]] = (
    gauge(
        f"{_CONTROLLER}_activecontrollercount", "Whether this node is the active controller.", lambda it: it.is_active
    ),
    gauge(f"{_CONTROLLER}_activebrokercount", "Brokers that are not fenced.", lambda it: it.active_brokers),
    gauge(f"{_CONTROLLER}_fencedbrokercount", "Brokers that are fenced.", lambda it: it.fenced_brokers),
    gauge(
        f"{_CONTROLLER}_controlledshutdownbrokercount",
        "Brokers in controlled shutdown.",
        lambda it: it.controlled_shutdown_brokers,
    ),
    gauge(f"{_CONTROLLER}_globaltopiccount", "Topics of the cluster.", lambda it: it.topics),
    gauge(f"{_CONTROLLER}_globalpartitioncount", "Partitions of the cluster.", lambda it: it.partitions),
    gauge(f"{_CONTROLLER}_offlinepartitionscount", "Partitions without a leader.", lambda it: it.offline_partitions),
    gauge(
        f"{_CONTROLLER}_preferredreplicaimbalancecount",
        "Partitions that another replica than the preferred one leads.",
        lambda it: it.preferred_replica_imbalance,
    ),
    gauge(
        f"{_CONTROLLER}_lastappliedrecordoffset", "Offset of the metadata in use.", lambda it: it.last_applied_offset
    ),
    gauge(
        f"{_CONTROLLER}_lastcommittedrecordoffset",
        "Offset of the last committed record.",
        lambda it: it.last_committed_offset,
    ),
    gauge(
        "ottla_under_replicated_partitions",
        "Partitions with a replica out of sync.",
        lambda it: it.under_replicated_partitions,
    ),
    gauge(
        "ottla_under_min_isr_partitions",
        "Partitions with fewer replicas in sync than min.insync.replicas.",
        lambda it: it.under_min_isr_partitions,
    ),
    gauge(
        "ottla_reassigning_partitions",
        "Partitions with a reassignment under way.",
        lambda it: it.reassigning_partitions,
    ),
    by_label(
        "gauge",
        "ottla_replicas",
        "Replicas of the cluster by state.",
        "state",
        lambda it: {"new": it.new_replicas, "online": it.online_replicas, "offline": it.offline_replicas},
    ),
    counter(
        f"{_STATS}_uncleanleaderelections_total",
        "Leaders that were not in sync.",
        lambda it: it.unclean_leader_elections,
    ),
    counter(
        f"{_STATS}_electionfromeligibleleaderreplicas_total",
        "Leaders elected from the eligible leader replicas.",
        lambda it: it.elr_leader_elections,
    ),
    by_label(
        "counter",
        "ottla_brokers_fenced_total",
        "Brokers fenced: connection refused at their listener, no response, or session timed out.",
        "reason",
        lambda it: {"refused": it.failed_probes, "hanging": it.failed_pings, "silent": it.ended_sessions},
    ),
    gauge(
        "ottla_unsteady_brokers",
        "Brokers that join only in-sync sets that lack members, since they did not respond a moment ago.",
        lambda it: it.unsteady_brokers,
    ),
    by_label(
        "gauge",
        f"{_CONTROLLER}_brokerregistrationstate",
        "10 fenced, 20 shutting down, 30 active.",
        "broker",
        lambda it: {str(broker): state for broker, state in it.broker_registration_states.items()},
    ),
)
"""Every controller has these, active or standby (as in Kafka)."""
