"""The brokers' view of their cluster: one of the planner's two inputs; the other is the host's view of the nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """One replica of the metadata log, as the quorum's leader reports it."""

    node_id: int
    directory_id: str
    is_caught_up: bool
    """Whether it had caught up a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition; ``replicas`` holds all assigned replicas, including those being added and removed."""

    partition: TopicPartition
    leader: int
    """-1 without a leader."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end of a reassignment in progress, the preferred leader first."""
        return tuple(node for node in self.replicas if node not in self.removing)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def lagging(self) -> set[int]:
        """The replicas that are not in sync."""
        return set(self.replicas) - set(self.isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureView:
    """One feature, as the broker that responded knows it."""

    level: int
    """The finalized level; 0 if none is."""
    last_supported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as its brokers describe it."""

    cluster_id: str
    brokers: Mapping[int, bool]
    """Whether each registered broker is fenced, by id."""
    racks: Mapping[int, str | None] = field(default_factory=dict)
    """The rack of each registered broker, by id."""
    controller_id: int
    """The active controller, which reported the quorum."""
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...] = ()
    partitions: tuple[PartitionView, ...] = ()
    """Of every topic, including Kafka's internal ones; sorted."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas by topic; requested only before a node is restarted, else empty."""
    own_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Configs set on single brokers, by id; requested only while nodes are added or removed, or partitions move."""
    topic_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Throttle configs of topics that are or were being reassigned; requested like ``own_configs``."""

    configs: Mapping[str, str] = field(default_factory=dict)
    """Cluster-wide broker configs; without secrets; like ``features`` only if requested."""
    features: Mapping[str, FeatureView] = field(default_factory=dict)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that are not fenced, in order."""
        return tuple(sorted(node for node, is_fenced in self.brokers.items() if not is_fenced))

    def min_in_sync(self, partition: PartitionView) -> int:
        """Return how many replicas must stay in sync while a node is down.

        It is ``min.insync.replicas``, but never all replicas: a partition that tolerates no loss of a replica could
        otherwise never be restarted.
        """
        wanted = self.min_isr.get(partition.partition.topic, 1)
        return min(wanted, len(partition.replicas) - 1)
