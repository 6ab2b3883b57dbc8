"""What brokers say of their cluster: the second half of what the planner looks at; the first is the host's."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumMember:
    """One replica of the metadata log, as the quorum's leader sees it."""

    node_id: int
    directory_id: str
    is_caught_up: bool
    """Whether it had everything a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """One partition; ``replicas`` holds everyone who is assigned, those who come and those who go included."""

    partition: TopicPartition
    leader: int
    """-1 while there is none."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at the end of a move that is under way, the preferred leader first."""
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
    """One feature, as the broker that was asked knows it."""

    level: int
    """What is finalized; 0 where nothing is."""
    last_supported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as its brokers describe it."""

    cluster_id: str
    brokers: Mapping[int, bool]
    """Whether each registered broker is fenced, by id."""
    racks: Mapping[int, str | None] = field(default_factory=dict)
    """Where each registered broker says that it is, by id."""
    controller_id: int
    """The active controller, which has told of the quorum."""
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...] = ()
    partitions: tuple[PartitionView, ...] = ()
    """Of every topic, Kafka's own too; sorted."""
    min_isr: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas by topic; asked for only when a node has to be restarted, else empty."""
    own_configs: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """What is set on single brokers, by id; asked for only while nodes come, go or partitions move."""
    topic_throttles: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is set on topics that are or were on the move; asked for as ``own_configs`` is."""

    configs: Mapping[str, str] = field(default_factory=dict)
    """What is set for all brokers through the brokers; without secrets, as are ``features`` only if asked for."""
    features: Mapping[str, FeatureView] = field(default_factory=dict)

    @property
    def live_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers that are not fenced, in order."""
        return tuple(sorted(node for node, is_fenced in self.brokers.items() if not is_fenced))

    def min_in_sync(self, partition: PartitionView) -> int:
        """Return how many replicas must stay in sync while a node is stopped.

        It is ``min.insync.replicas``, but never all replicas: a partition that tolerates no loss of a replica could
        otherwise never be restarted.
        """
        wanted = self.min_isr.get(partition.partition.topic, 1)
        return min(wanted, len(partition.replicas) - 1)
