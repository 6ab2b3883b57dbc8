"""`PartitionCounts`: the numbers of partitions while a topology is configured."""

from collections.abc import Iterable, Mapping

from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.streams.topology import Subtopology


class PartitionCounts:
    """Numbers of partitions of topics that exist, and of internal topics as far as they are decided.

    Source: InternalTopicManager.getPartitionCount.
    """

    def __init__(self, existing: Mapping[str, int]) -> None:
        self.existing = existing
        self.decided: dict[str, int] = {}

    def count_of(self, topic: str) -> int:
        """Return the number; that of the existing topic even if another one is decided.

        Raises:
            KeyError: the topic does not exist, and nothing is decided yet.
        """
        existing = self.existing.get(topic)
        return self.decided[topic] if existing is None else existing

    def largest_of_sources(self, subtopology: Subtopology) -> int | None:
        """Return the most partitions of a topic that the subtopology reads; None if it reads none."""
        counts = [self.count_of(topic) for topic in subtopology.source_topics]
        counts += [self.count_of(topic.name) for topic in subtopology.repartition_source_topics]
        return max(counts, default=None)


def existing_partition_counts(names: Iterable[str], topics: ClusterTopics) -> dict[str, int]:
    """Return the numbers of partitions of those topics that exist, all of them in the same image."""
    ids = ((name, topics.id_of(name)) for name in names)
    return {name: topics.partition_count_of(topic_id) for name, topic_id in ids if topic_id is not None}
