"""`configure_topology`: what a topology needs of the topics of the cluster, and what is missing.

Source: InternalTopicManager, ChangelogTopics of Apache Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.streams.topics.configured import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    StreamsStatus,
    TopologyProblem,
)
from ottla.groups.streams.topics.copartition import enforce_copartitioning
from ottla.groups.streams.topics.missing import missing_internal_topics
from ottla.groups.streams.topics.partition_counts import PartitionCounts, existing_partition_counts
from ottla.groups.streams.topics.problem import (
    TopicConfigurationError,
    incorrectly_partitioned,
    summary_of_topics,
)
from ottla.groups.streams.topics.repartition import repartition_partition_counts
from ottla.groups.streams.topology import InternalTopic, Subtopology, Topology
from ottla.java_hashes import buckets_of_grown, string_hash
from ottla.java_strings import string_order
from ottla.metadata.topic_name import invalid_topic_name_reason
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps

TASKS_MAX: Final = 10_000
"""Of one group, standby tasks not counted. Kafka has no bound; here the heartbeat that gives all of them to one member
takes 5 to 9 ms. A topic of 100 partitions that 500 subtopologies read would make 50,000 of them, and 30 ms."""
_SUBTOPOLOGIES_PER_STEP: Final = 16
_TOPICS_PER_STEP: Final = 64


def configure_topology(topology: Topology, metadata_hash: int, topics: ClusterTopics) -> Steps[ConfiguredTopology]:
    """Return the topology with its numbers of tasks and partitions for the topics that exist now.

    All topics are read in the first step: the result is that of one image, which may be an old one at the end.

    Args:
        topology: may be one that `check_topology` has not seen, from a log of JVM Kafka.
        metadata_hash: becomes part of the result.
        topics: the topics of the cluster.

    Raises:
        KafkaError: as in Kafka the heartbeat fails with it, as soon as all source topics exist:
            STREAMS_INVALID_TOPOLOGY, numbers of partitions cannot be derived from any source topics; or
            INVALID_TOPIC_EXCEPTION, the name of an internal topic is invalid.
    """
    counts = PartitionCounts(existing_partition_counts(topology.required_topics, topics))
    yield None
    try:
        subtopologies = yield from _configured_subtopologies(topology, counts)
        missing = yield from missing_internal_topics(topology, subtopologies, counts.existing)
    except TopicConfigurationError as error:
        return ConfiguredTopology(topology.epoch, metadata_hash, None, {}, error.problem)
    problem = None
    if missing:
        detail = f"Internal topics are missing: {summary_of_topics(list(missing))}"
        problem = TopologyProblem(StreamsStatus.MISSING_INTERNAL_TOPICS, detail)
    return ConfiguredTopology(topology.epoch, metadata_hash, subtopologies, missing, problem)


def _configured_subtopologies(topology: Topology, counts: PartitionCounts) -> Steps[dict[str, ConfiguredSubtopology]]:
    """Return all subtopologies, sorted by id, after all numbers of partitions have been decided.

    Raises:
        TopicConfigurationError, KafkaError: see `configure_topology`.
    """
    _check_source_topics(topology, counts)
    yield None
    ids = yield from in_hash_order(
        list(topology.subtopologies), string_hash, buckets_of_grown(len(topology.subtopologies))
    )
    subtopologies = [topology.subtopologies[subtopology_id] for subtopology_id in ids]
    counts.decided.update((yield from repartition_partition_counts(subtopologies, counts.existing)))
    yield from enforce_copartitioning(subtopologies, counts)
    yield from _decide_changelogs(subtopologies, counts)
    configured: dict[str, ConfiguredSubtopology] = {}
    for subtopology in subtopologies:
        configured[subtopology.subtopology_id] = yield from _configured(subtopology, counts)
        if len(configured) % _SUBTOPOLOGIES_PER_STEP == 0:
            yield None
    yield None
    tasks = sum(each.task_count for each in configured.values())
    if tasks > TASKS_MAX:
        raise incorrectly_partitioned(
            f"The subtopologies have {tasks} tasks in all for the partitions of their source topics; a streams group "
            f"has {TASKS_MAX} at most."
        )
    return {subtopology_id: configured[subtopology_id] for subtopology_id in sorted(configured, key=string_order)}


def _check_source_topics(topology: Topology, counts: PartitionCounts) -> None:
    missing = {
        topic
        for subtopology in topology.subtopologies.values()
        for topic in subtopology.source_topics
        if topic not in counts.existing
    }
    if missing:
        raise TopicConfigurationError(
            StreamsStatus.MISSING_SOURCE_TOPICS,
            f"Source topics {summary_of_topics(sorted(missing, key=string_order))} are missing.",
        )


def _decide_changelogs(subtopologies: Sequence[Subtopology], counts: PartitionCounts) -> Steps[None]:
    """Decide that changelog topics have as many partitions as the largest source topic of their subtopology."""
    decided: dict[str, int] = {}
    for number, subtopology in enumerate(subtopologies):
        count = counts.largest_of_sources(subtopology)
        if count is None:
            raise KafkaError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                f"No source topics found for subtopology {subtopology.subtopology_id}",
            )
        decided.update((topic.name, count) for topic in subtopology.state_changelog_topics)
        if number % _SUBTOPOLOGIES_PER_STEP == 0:
            yield None
    # Numbers of changelog topics do not count for those that are decided in this loop.
    counts.decided.update(decided)


def _configured(subtopology: Subtopology, counts: PartitionCounts) -> Steps[ConfiguredSubtopology]:
    task_count = counts.largest_of_sources(subtopology)
    assert task_count is not None, "a subtopology without source topics was accepted"
    return ConfiguredSubtopology(
        task_count=task_count,
        source_topics=frozenset(subtopology.source_topics),
        repartition_source_topics=(yield from _by_name(subtopology.repartition_source_topics, counts.decided)),
        repartition_sink_topics=frozenset(subtopology.repartition_sink_topics),
        state_changelog_topics=(yield from _by_name(subtopology.state_changelog_topics, counts.decided)),
    )


def _by_name(topics: Iterable[InternalTopic], decided: Mapping[str, int]) -> Steps[dict[str, InternalTopic]]:
    by_name: dict[str, InternalTopic] = {}
    for topic in topics:
        if reason := invalid_topic_name_reason(topic.name):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        partitions = topic.partitions or decided[topic.name]
        if partitions < 1:
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, "Number of partitions must be at least 1.")
        by_name[topic.name] = topic if topic.partitions else replace(topic, partitions=partitions)
        if len(by_name) % _TOPICS_PER_STEP == 0:
            yield None
    return by_name
