"""`ClusterTopics`: the topics of the cluster as groups see them: ids, partitions, hashes, versions.

Source: CoordinatorMetadataImage, GroupMetadataManager.onMetadataUpdate of Apache Kafka 4.3.
"""

from collections import deque
from collections.abc import Collection, Container, Iterable, Set
from typing import Final

from ottla.groups.modern.metadata_hash import group_hash, topic_hash
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.topics import PartitionRegistration, TopicImage
from ottla.purgatory.steps import Steps
from ottla.types import Offset, Uuid

_CHANGES_KEPT: Final = 64
_NAMES_COMPARED_MAX: Final = 1_000
_PARTITIONS_PER_STEP: Final = 400
"""Hashed in 0.2 ms."""
_PARTITIONS_PER_NAME: Final = 5
"""A topic takes as long as so many partitions, besides its own."""


class ClusterTopics:
    """Reads the newest metadata image; what is computed from a topic is kept until the topic changes."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._hashes: dict[str, int] = {}
        self.new_topics_version: Offset = -1
        """The newest image in which a topic was created: expressions that were resolved before are resolved again."""
        self.change_count = 0
        """Counts the images in which topics appeared, grew, moved or went."""
        self._changes: deque[set[str]] = deque(maxlen=_CHANGES_KEPT)

    @property
    def version(self) -> Offset:
        """Offset of the newest image."""
        return self._metadata.offset

    @property
    def names(self) -> Collection[str]:
        """The names of all topics; a view of the newest image."""
        return self._metadata.image.topics.by_name.keys()

    def ids_of(self, names: Iterable[str]) -> frozenset[Uuid]:
        """Return the ids of those topics that exist."""
        by_name = self._metadata.image.topics.by_name
        return frozenset(topic.topic_id for name in names if (topic := by_name.get(name)) is not None)

    def named_among(self, topic_ids: Iterable[Uuid], names: Collection[str]) -> frozenset[Uuid]:
        """Return those of ``topic_ids`` whose topics exist and are among ``names``, which may be thousands."""
        wanted = frozenset(names)
        return frozenset(topic_id for topic_id in topic_ids if self._metadata.topic_name(topic_id) in wanted)

    def id_of(self, name: str) -> Uuid | None:
        return self._metadata.topic_id(name)

    def name_of(self, topic_id: Uuid) -> str | None:
        return self._metadata.topic_name(topic_id)

    def partition_count_of(self, topic_id: Uuid) -> int:
        """Return a topic's number of partitions; 0 if it does not exist."""
        topic = self._metadata.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def existing(self, names: Set[str]) -> list[str]:
        """Return those topics that exist, sorted: members may name thousands of others."""
        return sorted(self._metadata.image.topics.by_name.keys() & names)

    def hash_of(self, names: Set[str]) -> int:
        """Return the hash of a group that subscribes to these topics; those that do not exist do not count."""
        by_name = self._metadata.image.topics.by_name
        return group_hash(self._topic_hash(by_name[name]) for name in self.existing(names))

    def prepare(self, names: Iterable[str]) -> Steps[None]:
        """Compute the hashes of these topics in slices, so that `hash_of` finds them."""
        work = 0
        for name in names:
            topic = self._metadata.image.topics.by_name.get(name)
            if topic is not None and name not in self._hashes:
                self._topic_hash(topic)
                work += _PARTITIONS_PER_NAME + len(topic.partitions)
            work += 1
            if work >= _PARTITIONS_PER_STEP:
                work = 0
                yield None

    def _topic_hash(self, topic: TopicImage) -> int:
        known = self._hashes.get(topic.name)
        if known is None:
            known = self._hashes[topic.name] = topic_hash(topic, self._racks_of)
        return known

    def _racks_of(self, partition: PartitionRegistration) -> list[str]:
        brokers = self._metadata.image.cluster.brokers
        found = (brokers.get(replica) for replica in partition.replicas)
        return [broker.rack for broker in found if broker is not None and broker.rack]

    # Changes

    def have_changed_since(self, change: int, names: Container[str]) -> bool:
        """Return whether one of the topics has changed since `change_count` was ``change``; True if that is long ago.

        Rejected: an index from topics to groups, as Kafka has. A member with thousands of names would take as long to
        index as to decide, and a group looks here only after a change.
        """
        missed = self.change_count - change
        if missed > len(self._changes):
            return True
        recent = list(self._changes)[len(self._changes) - missed :]
        if sum(map(len, recent)) > _NAMES_COMPARED_MAX:
            return True
        return any(name in names for changed in recent for name in changed)

    def on_metadata_update(self, delta: MetadataDelta) -> None:
        """Note the topics that appeared, grew, moved or are gone; the newest image has the changes."""
        changed: set[str] = set()
        has_new_topics = False
        before = delta.topics.image.by_id
        for topic_id, topic in delta.topics.changed_topics.items():
            old = before.get(topic_id)
            has_new_topics = has_new_topics or old is None
            if old is None or any(
                (known := old.partitions.get(partition)) is None or known.replicas != registration.replicas
                for partition, registration in topic.partition_changes.items()
            ):
                changed.add(topic.image.name)
        changed.update(topic.name for topic in delta.topics.deleted_topics.values())
        if has_new_topics or self.new_topics_version < 0:
            self.new_topics_version = self.version
        for name in changed:
            self._hashes.pop(name, None)
        if changed:
            self.change_count += 1
            self._changes.append(changed)
