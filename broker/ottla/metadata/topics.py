"""Topics and their partitions: replicas, leaders and in-sync replicas.

Source: PartitionRegistration, TopicsImage, TopicsDelta and TopicDelta of Apache Kafka; KIP-858 (directories),
KIP-966 (eligible leader replicas).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.cluster import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from ottla.metadata.metadata_version import RecordVersions
from ottla.metadata.records import MetadataRecord
from ottla.types import LeaderEpoch, NodeId, TopicPartition, Uuid
from ottla.wire.messages.metadata_log import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_LEADER = -1
NO_LEADER_CHANGE = -2
_ENOUGH_IN_SYNC_MIN = 2
NO_RECOVERY_CHANGE = -1

RECOVERED = 0
RECOVERING = 1


class PartitionRegistration(NamedTuple):
    """One partition.

    ``leader`` is `NO_LEADER` when there is none. ``leader_epoch`` counts leaders, ``partition_epoch`` every change.
    ``directories`` corresponds to ``replicas``, index by index. ``leader_recovery_state`` is `RECOVERING` after an
    unclean election until the leader reports that it has recovered.
    """

    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[Uuid, ...]
    removing_replicas: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    leader_recovery_state: int = RECOVERED

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_replica(self) -> NodeId:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory_of(self, broker_id: NodeId) -> Uuid:
        """Return the log directory that holds the broker's replica.

        Raises:
            ValueError: the broker has no replica.
        """
        return self.directories[self.replicas.index(broker_id)]

    def merge(self, record: PartitionChangeRecord) -> "PartitionRegistration":
        """Return the partition after ``record``."""
        replicas = self.replicas if record.replicas is None else tuple(record.replicas)
        leader, leader_epoch = self.leader, self.leader_epoch
        if record.leader != NO_LEADER_CHANGE:
            leader, leader_epoch = record.leader, leader_epoch + 1
        directories = self.directories
        if record.directories is not None:
            directories = tuple(record.directories)
        elif record.replicas is not None:
            known = dict(zip(self.replicas, self.directories, strict=True))
            directories = tuple(known.get(replica, DIRECTORY_UNASSIGNED) for replica in replicas)
        return PartitionRegistration(
            replicas=replicas,
            isr=_changed(record.isr, self.isr),
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            directories=directories,
            removing_replicas=_changed(record.removing_replicas, self.removing_replicas),
            adding_replicas=_changed(record.adding_replicas, self.adding_replicas),
            elr=_changed(record.eligible_leader_replicas, self.elr),
            last_known_elr=_changed(record.last_known_elr, self.last_known_elr),
            leader_recovery_state=(
                self.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state
            ),
        )

    def to_record(self, topic_id: Uuid, partition: int, versions: RecordVersions) -> MetadataRecord:
        with_elr = versions.supports_elr
        return MetadataRecord(
            PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=list(self.replicas),
                isr=list(self.isr),
                removing_replicas=list(self.removing_replicas),
                adding_replicas=list(self.adding_replicas),
                leader=self.leader,
                leader_recovery_state=self.leader_recovery_state,
                leader_epoch=self.leader_epoch,
                partition_epoch=self.partition_epoch,
                directories=list(self.directories) if versions.supports_directories else [],
                eligible_leader_replicas=list(self.elr) if with_elr and self.elr else None,
                last_known_elr=list(self.last_known_elr) if with_elr and self.last_known_elr else None,
            ),
            versions.partition,
        )

    @classmethod
    def from_record(cls, record: PartitionRecord) -> "PartitionRegistration":
        replicas = tuple(record.replicas)
        isr = tuple(record.isr)
        return cls(
            replicas=replicas,
            isr=replicas if isr == replicas else isr,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(replicas),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader_recovery_state=record.leader_recovery_state,
        )


def enough_in_sync(min_insync_replicas: int) -> int:
    """Return how many members an in-sync set needs in order to do without a replica that hangs now and then.

    A set of one takes, and keeps, any replica: the next failure would stop the partition, or lose its records.
    """
    return max(_ENOUGH_IN_SYNC_MIN, min_insync_replicas)


def _changed(change: list[NodeId] | None, current: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    return current if change is None else tuple(change)


@dataclass(frozen=True, slots=True)
class TopicImage:
    """One topic; ``partitions`` by number, from 0 without gaps."""

    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionRegistration]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """Every topic, by id and by name."""

    by_id: Mapping[Uuid, TopicImage] = field(default_factory=dict)
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)

    def partition(self, topic_partition: TopicPartition) -> PartitionRegistration | None:
        topic = self.by_name.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def records(self, versions: RecordVersions) -> Iterator[MetadataRecord]:
        for topic_id, topic in sorted(self.by_id.items()):
            yield MetadataRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0)
            for partition, registration in sorted(topic.partitions.items()):
                yield registration.to_record(topic_id, partition, versions)


class LocalReplica(NamedTuple):
    """A partition that one broker replicates, after a change."""

    topic_id: Uuid
    partition: PartitionRegistration


@dataclass(slots=True)
class LocalReplicaChanges:
    """Changes of a `TopicsDelta` for one broker.

    Attributes:
        deletes: partitions that it no longer replicates, or whose topic is gone.
        elected_leaders: partitions that it leads in a new leader epoch.
        leaders: partitions that it leads and that changed in any way (`elected_leaders` included).
        followers: partitions that it replicates without leading them, and that changed.
    """

    deletes: dict[TopicPartition, Uuid] = field(default_factory=dict)
    elected_leaders: dict[TopicPartition, LocalReplica] = field(default_factory=dict)
    leaders: dict[TopicPartition, LocalReplica] = field(default_factory=dict)
    followers: dict[TopicPartition, LocalReplica] = field(default_factory=dict)


class TopicDelta:
    """Changes to one topic; ``partition_changes`` holds the new registrations."""

    __slots__ = ("image", "partition_changes")

    def __init__(self, image: TopicImage) -> None:
        self.image = image
        self.partition_changes: dict[int, PartitionRegistration] = {}

    def partition(self, partition: int) -> PartitionRegistration | None:
        changed = self.partition_changes.get(partition)
        return self.image.partitions.get(partition) if changed is None else changed

    def apply(self) -> TopicImage:
        if not self.partition_changes:
            return self.image
        return TopicImage(self.image.name, self.image.topic_id, {**self.image.partitions, **self.partition_changes})


class TopicsDelta:
    """Changes on the way from one `TopicsImage` to the next.

    ``changed_topics`` by id, created ones included (their ``image`` has no partitions); ``deleted_topics`` by id, as
    they were in ``image``.
    """

    __slots__ = ("_created_ids", "changed_topics", "deleted_topics", "image")

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed_topics: dict[Uuid, TopicDelta] = {}
        self.deleted_topics: dict[Uuid, TopicImage] = {}
        self._created_ids: dict[str, Uuid] = {}

    def topic(self, topic_id: Uuid) -> TopicDelta:
        """Return the topic with the changes so far, ready to be changed further.

        Raises:
            ValueError: there is no such topic.
        """
        changed = self.changed_topics.get(topic_id)
        if changed is None:
            topic = None if topic_id in self.deleted_topics else self.image.by_id.get(topic_id)
            if topic is None:
                raise ValueError(f"a record names topic id {topic_id.hex()}, which does not exist")
            changed = self.changed_topics[topic_id] = TopicDelta(topic)
        return changed

    def add_all(self, image: TopicsImage) -> None:
        """Add every topic of ``image`` as its records would: in their order, but without creating the records."""
        for topic_id, topic in sorted(image.by_id.items()):
            created = self.changed_topics[topic_id] = TopicDelta(TopicImage(topic.name, topic_id, {}))
            created.partition_changes.update(sorted(topic.partitions.items()))
            self._created_ids[topic.name] = topic_id

    def replay_topic(self, record: TopicRecord) -> None:
        self.changed_topics[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id, {}))
        self._created_ids[record.name] = record.topic_id

    def replay_partition(self, record: PartitionRecord) -> None:
        changes = self.topic(record.topic_id).partition_changes
        changes[record.partition_id] = PartitionRegistration.from_record(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        topic = self.topic(record.topic_id)
        before = topic.partition(record.partition_id)
        if before is None:
            raise ValueError(
                f"a PartitionChangeRecord names {topic.image.name}-{record.partition_id}, which is unknown"
            )
        topic.partition_changes[record.partition_id] = before.merge(record)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Remove the topic; return its name."""
        name = self.topic(record.topic_id).image.name
        del self.changed_topics[record.topic_id]
        if self._created_ids.get(name) == record.topic_id:
            del self._created_ids[name]
        existing = self.image.by_id.get(record.topic_id)
        if existing is not None:
            self.deleted_topics[record.topic_id] = existing
        return name

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        """Empty the eligible leader replicas of one topic, or of all when the record names none."""
        if record.topic_name:
            existing = self.image.by_name.get(record.topic_name)
            topic_id = self._created_ids.get(record.topic_name)
            if topic_id is None and existing is not None:
                topic_id = existing.topic_id
            ids = [] if topic_id is None else [topic_id]
        else:
            ids = [topic_id for topic_id in self.image.by_id if topic_id not in self.deleted_topics]
            ids += [topic_id for topic_id in self.changed_topics if topic_id not in self.image.by_id]
        for topic_id in ids:
            topic = self.topic(topic_id)
            for partition in (*topic.image.partitions, *topic.partition_changes):
                registration = topic.partition(partition)
                assert registration is not None
                if registration.elr or registration.last_known_elr:
                    topic.partition_changes[partition] = registration._replace(
                        elr=(), last_known_elr=(), partition_epoch=registration.partition_epoch + 1
                    )

    def finish_snapshot(self) -> None:
        """Remove topics that the snapshot does not name."""
        for topic_id, topic in self.image.by_id.items():
            if topic_id not in self.changed_topics:
                self.deleted_topics[topic_id] = topic

    def apply(self) -> TopicsImage:
        if not self.changed_topics and not self.deleted_topics:
            return self.image
        by_id, by_name = dict(self.image.by_id), dict(self.image.by_name)
        for topic_id, topic in self.deleted_topics.items():
            del by_id[topic_id]
            if by_name[topic.name].topic_id == topic_id:
                del by_name[topic.name]
        for topic_id, delta in self.changed_topics.items():
            by_id[topic_id] = by_name[delta.image.name] = delta.apply()
        return TopicsImage(by_id, by_name)

    def local_changes(self, broker_id: NodeId, *, topic_name: str | None = None) -> LocalReplicaChanges:
        """Return the changes for ``broker_id``, topics and partitions in the order of the log.

        ``topic_name``: of that topic only.
        """
        changes = LocalReplicaChanges()
        for topic_id, topic in self.deleted_topics.items():
            if topic_name not in (None, topic.name):
                continue
            for partition, registration in topic.partitions.items():
                if broker_id in registration.replicas:
                    changes.deletes[TopicPartition(topic.name, partition)] = topic_id
        for topic_id, delta in self.changed_topics.items():
            if topic_name not in (None, delta.image.name):
                continue
            before_topic = self.image.by_id.get(topic_id)
            for partition, after in delta.partition_changes.items():
                before = None if before_topic is None else before_topic.partitions.get(partition)
                _sort_local(changes, broker_id, TopicPartition(delta.image.name, partition), topic_id, before, after)
        return changes


def _sort_local(
    changes: LocalReplicaChanges,
    broker_id: NodeId,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    before: PartitionRegistration | None,
    after: PartitionRegistration,
) -> None:
    local = LocalReplica(topic_id, after)
    if broker_id not in after.replicas:
        if before is not None and broker_id in before.replicas:
            changes.deletes[topic_partition] = topic_id
    elif after.leader == broker_id:
        changes.leaders[topic_partition] = local
        if before is None or before.leader_epoch != after.leader_epoch:
            changes.elected_leaders[topic_partition] = local
    else:
        changes.followers[topic_partition] = local
