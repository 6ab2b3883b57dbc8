"""The partitions that a member with a user endpoint serves: clients find the state of a key by them.

Source: EndpointToPartitionsManager of Apache Kafka 4.3.1.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.streams.topics.configured import ConfiguredSubtopology, ConfiguredTopology
from ottla.java_strings import string_order
from ottla.wire.messages.streams_group_heartbeat import TopicPartition


class EndpointPartitions(NamedTuple):
    """Partitions of the source topics of a member's tasks, by subtopology and topic."""

    active: list[TopicPartition]
    standby: list[TopicPartition]


def partitions_of_endpoint(
    active: Mapping[str, Collection[int]],
    standby: Mapping[str, Collection[int]],
    configured: ConfiguredTopology,
    topics: ClusterTopics,
) -> EndpointPartitions:
    """Return what ``partitions_by_user_endpoint`` of a heartbeat's response says of one member.

    Subtopologies that are not configured, and topics that do not exist any more, are left out; Kafka fails with
    UNKNOWN_SERVER_ERROR.

    Args:
        active: partitions of the assigned active tasks by subtopology id; the keys, if they are mappings to epochs.
        standby: partitions of the assigned standby tasks.
        configured: the topology of the group.
        topics: the topics of the cluster.
    """
    subtopologies = configured.subtopologies or {}
    return EndpointPartitions(
        _topic_partitions(active, subtopologies, topics), _topic_partitions(standby, subtopologies, topics)
    )


def _topic_partitions(
    tasks: Mapping[str, Collection[int]], subtopologies: Mapping[str, ConfiguredSubtopology], topics: ClusterTopics
) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for subtopology_id in sorted(tasks, key=string_order):
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        partitions = sorted(tasks[subtopology_id])
        for topic in sorted(subtopology.source_topics | subtopology.repartition_source_topics.keys()):
            topic_id = topics.id_of(topic)
            count = 0 if topic_id is None else topics.partition_count_of(topic_id)
            if count:
                # As in Kafka the number of partitions counts here, not which they are: a topic with fewer partitions
                # than the subtopology has tasks may be listed with some that it does not have.
                found.append(TopicPartition(topic=topic, partitions=partitions[:count]))
    return found
