"""`ConfiguredTopology`: a topology with the numbers of partitions that follow from the topics of the cluster.

Source: ConfiguredTopology, ConfiguredSubtopology, TopicConfigurationException of Apache Kafka 4.3.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.groups.streams.topology import InternalTopic, described_topics
from ottla.java_strings import string_order
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages.create_topics import CreatableTopic


class StreamsStatus(IntEnum):
    """Problems of which a heartbeat's response informs a member, by status code.

    Source: StreamsGroupHeartbeatResponse.Status.
    """

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class TopologyProblem:
    """Why no task can be assigned.

    Attributes:
        status: MISSING_SOURCE_TOPICS, INCORRECTLY_PARTITIONED_TOPICS or MISSING_INTERNAL_TOPICS.
        detail: a sentence for the user of the application, short enough for every response.
    """

    status: StreamsStatus
    detail: str


@dataclass(frozen=True, slots=True)
class ConfiguredSubtopology:
    """A subtopology with its number of tasks, 1 or more; its internal topics have numbers of partitions, by name."""

    task_count: int
    source_topics: frozenset[str]
    repartition_source_topics: Mapping[str, InternalTopic]
    repartition_sink_topics: frozenset[str]
    state_changelog_topics: Mapping[str, InternalTopic]


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """The result of `configure_topology`; never changed once it is in use.

    Attributes:
        epoch: of the topology.
        metadata_hash: of the topics for which it was configured.
        subtopologies: sorted by id; None with another problem than MISSING_INTERNAL_TOPICS.
        internal_topics_to_create: by name; empty without the problem MISSING_INTERNAL_TOPICS.
        problem: None when tasks can be assigned.
    """

    epoch: int
    metadata_hash: int
    subtopologies: Mapping[str, ConfiguredSubtopology] | None
    internal_topics_to_create: Mapping[str, CreatableTopic]
    problem: TopologyProblem | None

    @property
    def is_ready(self) -> bool:
        """Whether all topics exist with the right numbers of partitions."""
        return self.problem is None


def described_configured_topology(configured: ConfiguredTopology) -> described.Topology:
    """Return the topology for a description, with the configured numbers; Kafka describes so what is ready."""
    return described.Topology(
        epoch=configured.epoch,
        subtopologies=[
            described.Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics, key=string_order),
                repartition_sink_topics=sorted(each.repartition_sink_topics, key=string_order),
                state_changelog_topics=described_topics(each.state_changelog_topics.values()),
                repartition_source_topics=described_topics(each.repartition_source_topics.values()),
            )
            for subtopology_id, each in (configured.subtopologies or {}).items()
        ],
    )
