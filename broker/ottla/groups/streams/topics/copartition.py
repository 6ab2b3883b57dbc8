"""Copartitioned topics: the topics of a group must have the same number of partitions.

Source: CopartitionedTopicsEnforcer, InternalTopicManager.enforceCopartitioning of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.groups.streams.topics.partition_counts import PartitionCounts
from ottla.groups.streams.topics.problem import TopicConfigurationError, incorrectly_partitioned
from ottla.groups.streams.topology import Subtopology
from ottla.java_hashes import buckets_of_grown, string_hash
from ottla.java_strings import string_order
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps
from ottla.quoting import cut_name

_TOPICS_PER_STEP: Final = 128


class _Enforcer:
    """Makes the repartition topics of one topology fit the copartition groups that they are in."""

    def __init__(self, subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> None:
        self._counts = counts
        internal = [topic for each in subtopologies for topic in each.repartition_source_topics]
        self._repartition = frozenset(topic.name for topic in internal)
        self._fixed = frozenset(topic.name for topic in internal if topic.partitions)
        # These do not change: a decision that contradicts one of them is an error.
        self._fixed_counts = {counts.count_of(topic) for topic in self._fixed}

    def enforce(self, group: Sequence[str]) -> Steps[None]:
        """Decide the number of partitions of the repartition topics in a group, which is not empty.

        Raises:
            TopicConfigurationError: topics whose numbers are fixed have different ones.
        """
        counts = {topic: self._counts.count_of(topic) for topic in group}
        repartition = {topic: count for topic, count in counts.items() if topic in self._repartition}
        external = {topic: count for topic, count in counts.items() if topic not in self._repartition}
        if external:
            count = self._same_count(external)
        elif self._fixed:
            # Kafka compares all topics of the topology whose number is fixed, also those outside of the group.
            if len(self._fixed_counts) > 1:
                raise _different_counts(repartition)
            (count,) = self._fixed_counts
        else:
            count = max(repartition.values())
        if any(topic in self._fixed and own != count for topic, own in repartition.items()):
            # Kafka names the first one in a hash table that was filled from another one.
            ordered = yield from in_hash_order(group, string_hash, buckets_of_grown(len(group)))
            wrong = [topic for topic in ordered if topic in self._fixed and counts[topic] != count]
            topic = (yield from in_hash_order(wrong, string_hash, buckets_of_grown(len(repartition))))[0]
            raise incorrectly_partitioned(
                f"Number of partitions [{counts[topic]}] of repartition topic [{cut_name(topic)}] doesn't match "
                f"number of partitions [{count}] of the source topic."
            )
        self._counts.decided.update(dict.fromkeys(repartition, count))

    @staticmethod
    def _same_count(external: Mapping[str, int]) -> int:
        different = set(external.values())
        if len(different) > 1:
            raise _different_counts(external)
        return different.pop()


def _different_counts(counts: Mapping[str, int]) -> TopicConfigurationError:
    listed = ", ".join(f"{cut_name(topic)}={counts[topic]}" for topic in sorted(counts, key=string_order))
    return incorrectly_partitioned(f"Following topics do not have the same number of partitions: [{{{listed}}}]")


def enforce_copartitioning(subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> Steps[None]:
    """Decide the numbers of partitions of repartition topics in copartition groups, one group after the other.

    Args:
        subtopologies: in the order in which Kafka considers them.
        counts: has those of all source topics and repartition topics.

    Raises:
        TopicConfigurationError: INCORRECTLY_PARTITIONED_TOPICS, numbers that are fixed are different.
        KafkaError: STREAMS_INVALID_TOPOLOGY, a group has the index of a topic that its subtopology does not have.
    """
    yield None
    enforcer = _Enforcer(subtopologies, counts)
    yield None
    work = 0
    for subtopology in subtopologies:
        for group in subtopology.copartition_groups:
            topics = subtopology.copartitioned_topics(group)
            if topics:
                yield from enforcer.enforce(topics)
            work += 1 + len(topics)
            if work >= _TOPICS_PER_STEP:
                work = 0
                yield None
