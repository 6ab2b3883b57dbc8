"""The results of `AdminClient`: plain values, in Kafka's terms."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ottla.types import Endpoint, LeaderEpoch, NodeId, Offset, TopicPartition, format_uuid
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDescription:
    """One broker with its advertised address."""

    node_id: NodeId
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster; ``controller_id`` is -1 while there is none."""

    cluster_id: str
    controller_id: NodeId
    brokers: tuple[BrokerDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; ``leader`` is -1 while there is none."""

    partition: int
    leader: NodeId
    leader_epoch: LeaderEpoch
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    offline_replicas: tuple[NodeId, ...] = ()
    eligible_leader_replicas: tuple[NodeId, ...] = ()
    """Replicas outside of the ISR that have every committed record (KIP-966); only in `describe_topic_partitions`."""
    last_known_elr: tuple[NodeId, ...] = ()
    """Former ``eligible_leader_replicas`` that had an unclean shutdown; only in `describe_topic_partitions`."""

    @classmethod
    def of(cls, entry: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition) -> "PartitionDescription":
        eligible, last_known = (
            (entry.eligible_leader_replicas, entry.last_known_elr)
            if isinstance(entry, DescribeTopicPartitionsResponsePartition)
            else (None, None)
        )
        return cls(
            partition=entry.partition_index,
            leader=entry.leader_id,
            leader_epoch=entry.leader_epoch,
            replicas=tuple(entry.replica_nodes),
            isr=tuple(entry.isr_nodes),
            offline_replicas=tuple(entry.offline_replicas),
            eligible_leader_replicas=tuple(eligible or ()),
            last_known_elr=tuple(last_known or ()),
        )

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A reassignment in progress: ``replicas`` are all assigned ones, including those being added and removed."""

    replicas: tuple[NodeId, ...]
    adding: tuple[NodeId, ...]
    removing: tuple[NodeId, ...]

    @property
    def target(self) -> tuple[NodeId, ...]:
        """The replicas at the end of the reassignment, the preferred leader first."""
        return tuple(node for node in self.replicas if node not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic without its configs; partitions in order."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @classmethod
    def of(cls, topic: MetadataResponseTopic | DescribeTopicPartitionsResponseTopic) -> "TopicDescription":
        """Convert an existing topic of a response."""
        entries: Iterable[MetadataResponsePartition | DescribeTopicPartitionsResponsePartition] = topic.partitions
        return cls(
            name=topic.name or "",
            topic_id=format_uuid(topic.topic_id),
            is_internal=topic.is_internal,
            partitions=tuple(map(PartitionDescription.of, sorted(entries, key=lambda entry: entry.partition_index))),
        )

    @property
    def partition_count(self) -> int:
        return len(self.partitions)

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition, as Kafka's tools print it."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    def with_more(self, partitions: tuple[PartitionDescription, ...]) -> "TopicDescription":
        """Return this topic with the partitions of another page."""
        return replace(self, partitions=self.partitions + partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One key of a resource, with its synonyms by precedence.

    ``source`` is Kafka's name: DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG,
    STATIC_BROKER_CONFIG, DEFAULT_CONFIG, CLIENT_METRICS_CONFIG, GROUP_CONFIG. A sensitive value is None.
    """

    name: str
    value: str | None
    source: str
    read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[tuple[str, str | None, str], ...] = ()
    """(name, value, source)."""
    documentation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An offset found by `list_offsets`; -1 if no record is that new. ``timestamp_ms`` is -1 if unknown."""

    offset: Offset
    timestamp_ms: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group; ``state`` and ``type`` are empty if an old broker does not return them."""

    group_id: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """One member of a group and its assigned partitions, sorted."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...] = ()
    tasks: "MemberTasks | None" = None
    """Of a member of a streams group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTasks:
    """The tasks of a streams group's member, sorted, as Kafka Streams writes them: ``0_1`` is partition 1 of 0."""

    member_epoch: int
    topology_epoch: int
    process_id: str
    active: tuple[str, ...]
    standby: tuple[str, ...]
    warmup: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubtopologyDescription:
    """A part of a streams group's topology whose tasks need only their own partitions; topics by name."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsDescription:
    """What only streams groups have; ``topology_epoch`` is None before the first member has sent a topology."""

    group_epoch: int
    assignment_epoch: int
    topology_epoch: int | None
    subtopologies: tuple[SubtopologyDescription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group; ``state`` is Kafka's name (Stable, Empty, PreparingRebalance, Dead, ...)."""

    group_id: str
    type: str
    """``classic``, ``consumer``, ``share`` or ``streams``."""
    state: str
    protocol_type: str
    assignor: str
    coordinator: Endpoint
    members: tuple[MemberDescription, ...]
    streams: StreamsDescription | None = None
    """Of a streams group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A committed offset: the next one that the group reads."""

    offset: Offset
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """The start offset of a share-partition: the oldest record that the group may still deliver.

    Attributes:
        start_offset: None while the group has read nothing of the partition.
        lag: records that the group has not accepted, rejected or given up yet; None if the broker does not know it.
    """

    start_offset: Offset | None
    leader_epoch: LeaderEpoch = -1
    lag: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumReplica:
    """One voter or observer, as the leader sees it; times are milliseconds since 1970, -1 if unknown."""

    node_id: NodeId
    directory_id: str
    log_end_offset: Offset
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int
    endpoints: tuple[str, ...] = ()
    """``NAME://host:port``, if the broker returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The metadata quorum."""

    leader_id: NodeId
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaInfo:
    """One replica on a disk; ``offset_lag`` counts records behind the high watermark."""

    size_bytes: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """One log directory; ``error`` is a code's name if it is offline. Sizes are -1 if unknown."""

    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaInfo] = field(default_factory=dict)
