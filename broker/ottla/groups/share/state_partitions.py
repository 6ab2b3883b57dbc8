"""`StatePartitions`: which share-partitions of a group have state at the share coordinators.

Source: ShareGroupStatePartitionMetadataInfo, GroupMetadataManager.combineInitMaps of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ottla.types import Uuid

TOPICS_MAX: Final = 1_000
"""Topics of one share group: all are in one record, which is written with each change of them (docs/limits.md)."""
PARTITIONS_MAX: Final = 10_000

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]


@dataclass(frozen=True, slots=True)
class StateTopic:
    """Share-partitions of one topic."""

    name: str
    partitions: frozenset[int]


TopicStates: TypeAlias = Mapping[Uuid, StateTopic]


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """What one record stores; a changed copy of it is the next record.

    Attributes:
        initializing: state is being created.
        initialized: state exists; the partitions are assigned.
        deleting: names of topics whose state is being deleted.
    """

    initializing: TopicStates = field(default_factory=dict)
    initialized: TopicStates = field(default_factory=dict)
    deleting: Mapping[Uuid, str] = field(default_factory=dict)

    def with_initializing(self, topics: TopicStates) -> "StatePartitions":
        """Add partitions whose state is going to be created; their topics are no longer being deleted."""
        deleting = {topic_id: name for topic_id, name in self.deleting.items() if topic_id not in topics}
        return replace(self, initializing=_union(self.initializing, topics), deleting=deleting)

    def with_initialized(self, topics: TopicStates) -> "StatePartitions":
        """Move partitions whose state has been created."""
        return replace(
            self,
            initializing=_difference(self.initializing, topics),
            initialized=_union(self.initialized, topics),
        )

    def without_initializing(self, topics: TopicStates) -> "StatePartitions":
        """Remove partitions whose state could not be created: the next heartbeat tries again."""
        return replace(self, initializing=_difference(self.initializing, topics))

    def with_deleting(self, topics: Mapping[Uuid, str]) -> "StatePartitions":
        """Move initialized topics whose state is going to be deleted."""
        return replace(
            self,
            initialized={topic_id: topic for topic_id, topic in self.initialized.items() if topic_id not in topics},
            deleting={**self.deleting, **topics},
        )

    def without_deleting(self, topic_ids: Iterable[Uuid]) -> "StatePartitions":
        """Remove topics whose state has been deleted."""
        deleted = frozenset(topic_ids)
        return replace(
            self, deleting={topic_id: name for topic_id, name in self.deleting.items() if topic_id not in deleted}
        )

    def without_topics(self, topic_ids: frozenset[Uuid]) -> "StatePartitions":
        """Remove topics that no longer exist."""
        return replace(
            self,
            initializing={key: topic for key, topic in self.initializing.items() if key not in topic_ids},
            initialized={key: topic for key, topic in self.initialized.items() if key not in topic_ids},
            deleting={key: name for key, name in self.deleting.items() if key not in topic_ids},
        )

    def awaits_state(self) -> bool:
        """Return whether a partition is initializing that was not initialized before."""
        return bool(self.initializing) and bool(_difference(self.initializing, self.initialized))

    def topic_ids(self) -> set[Uuid]:
        """Return the topics that have a state in the record."""
        return self.initializing.keys() | self.initialized.keys() | self.deleting.keys()


class StateSize:
    """How many topics and partitions of a group have a state, or are going to have one."""

    def __init__(self, state: StatePartitions) -> None:
        """Count those that are initialized or initializing."""
        self._known = _union(state.initialized, state.initializing)
        self._topics = len(self._known)
        self._partitions = sum(len(topic.partitions) for topic in self._known.values())

    def add(self, topic_id: Uuid, partitions: frozenset[int]) -> bool:
        """Count further partitions of a topic, once for each topic; return whether the group may have so many."""
        known = self._known.get(topic_id)
        self._topics += known is None
        self._partitions += len(partitions if known is None else partitions - known.partitions)
        return self._topics <= TOPICS_MAX and self._partitions <= PARTITIONS_MAX


def _union(first: TopicStates, second: TopicStates) -> TopicStates:
    union = dict(first)
    for topic_id, topic in second.items():
        known = union.get(topic_id)
        union[topic_id] = topic if known is None else StateTopic(topic.name, known.partitions | topic.partitions)
    return union


def _difference(first: TopicStates, second: TopicStates) -> TopicStates:
    difference: dict[Uuid, StateTopic] = {}
    for topic_id, topic in first.items():
        removed = second.get(topic_id)
        left = topic.partitions if removed is None else topic.partitions - removed.partitions
        if left:
            difference[topic_id] = StateTopic(topic.name, left)
    return difference
