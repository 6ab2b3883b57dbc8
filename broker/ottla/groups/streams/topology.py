"""`Topology`: what a Kafka Streams application declares of its subtopologies, in requests, records and descriptions.

Source: StreamsTopology, StreamsCoordinatorRecordHelpers of Apache Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Final

from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.java_strings import string_order
from ottla.quoting import cut_name
from ottla.wire.messages import streams_group_describe as described
from ottla.wire.messages import streams_group_heartbeat as requested
from ottla.wire.messages import streams_group_log as logged

SUBTOPOLOGIES_MAX: Final = 500
SUBTOPOLOGY_ID_CHARACTERS_MAX: Final = 249
"""As of a topic's name: the records of every member have the ids."""
TOPICS_MAX: Final = 2_000
"""Over all lists: a repartition topic counts as the sink of one subtopology and as the source of another."""
ENTRIES_MAX: Final = 10_000
"""Topics, keys of their configurations, copartition groups and the topics in those. Kafka has no bounds; with these a
topology is checked in 1 ms, and converted in 2 to 5 ms."""
INTERNAL_TOPIC_PARTITIONS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A repartition or changelog topic.

    Attributes:
        name: any string; validated when the topic is configured.
        partitions: 0 where the number follows from the source topics, as it does for every changelog topic.
        replication_factor: 0 for the default of the cluster.
        configs: keys and values of the topic's configuration, in the order of the client.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CopartitionGroup:
    """Source topics that need the same number of partitions, each as an index in a list of the subtopology."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A part of the topology whose tasks are independent of those of other parts.

    Attributes:
        subtopology_id: unique in the topology.
        source_topics: topics of the user that it reads.
        source_topic_regex: always empty in Kafka 4.3, which rejects regular expressions.
        state_changelog_topics: internal topics with its state; it is stateful if there are any.
        repartition_sink_topics: internal topics that it writes.
        repartition_source_topics: internal topics that it reads.
        copartition_groups: may overlap.
    """

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def copartitioned_topics(self, group: CopartitionGroup) -> tuple[str, ...]:
        """Return the names of the topics in one of the groups, each once.

        Raises:
            KafkaError: STREAMS_INVALID_TOPOLOGY, an index is out of range; a stored topology may have such ones.
        """
        if not (
            _are_indices(group.source_topics, len(self.source_topics))
            and _are_indices(group.repartition_source_topics, len(self.repartition_source_topics))
        ):
            raise _invalid_copartition_group(self.subtopology_id)
        topics = [self.source_topics[index] for index in group.source_topics]
        topics += [self.repartition_source_topics[index].name for index in group.repartition_source_topics]
        return tuple(dict.fromkeys(topics))


@dataclass(frozen=True)
class Topology:
    """The topology of a group. Two are equal if epoch and subtopologies are, with all lists in the same order.

    Attributes:
        epoch: 0 or more.
        subtopologies: by id, in the order of the client, which does not count for equality.
    """

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    @cached_property
    def required_topics(self) -> frozenset[str]:
        """The names of all source topics, repartition source topics and changelog topics, whether they exist or not."""
        return frozenset(
            chain.from_iterable(
                (
                    *each.source_topics,
                    *(topic.name for topic in each.repartition_source_topics),
                    *(topic.name for topic in each.state_changelog_topics),
                )
                for each in self.subtopologies.values()
            )
        )

    @cached_property
    def subtopology_of_source(self) -> Mapping[str, str]:
        """The id of the subtopology that reads each source topic and repartition source topic."""
        return {
            topic: subtopology_id
            for subtopology_id, each in self.subtopologies.items()
            for topic in (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        }


def check_topology(message: requested.Topology) -> None:
    """Reject the topology of a joining member if it is unsupported, contradictory or too large.

    Raises:
        KafkaError: INVALID_REQUEST for regular expressions, STREAMS_INVALID_TOPOLOGY for changelog topics with a number
            of partitions, as in Kafka; STREAMS_INVALID_TOPOLOGY_EPOCH for a negative epoch and STREAMS_INVALID_TOPOLOGY
            for duplicates, indices out of range, negative numbers of partitions (UNKNOWN_SERVER_ERROR in Kafka), and
            for more of anything than a streams group of Ottla has.

    Source: GroupCoordinatorService.streamsGroupHeartbeat.
    """
    if any(each.source_topic_regex for each in message.subtopologies):
        raise InvalidRequestError("Regular expressions for source topics are not supported yet.")
    _check_sizes(message.subtopologies)
    if message.epoch < 0:
        raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, "Topology epoch must be non-negative.")
    for subtopology in message.subtopologies:
        for changelog in subtopology.state_changelog_topics:
            if changelog.partitions != 0:
                raise _invalid(
                    f"Changelog topic {cut_name(changelog.name)} must have an undefined partition count, but it is set "
                    f"to {changelog.partitions}."
                )
    ids = [each.subtopology_id for each in message.subtopologies]
    if len(set(ids)) < len(ids):
        raise _invalid("The topology has several subtopologies with the same id.")
    for subtopology in message.subtopologies:
        _check_subtopology(subtopology)


def _check_sizes(subtopologies: list[requested.Subtopology]) -> None:
    """Reject what is too large by the lengths of its lists, before anything looks at their entries."""
    if len(subtopologies) > SUBTOPOLOGIES_MAX:
        raise _invalid(f"The topology has {len(subtopologies)} subtopologies; the most are {SUBTOPOLOGIES_MAX}.")
    if any(len(each.subtopology_id) > SUBTOPOLOGY_ID_CHARACTERS_MAX for each in subtopologies):
        raise _invalid(f"The id of a subtopology has {SUBTOPOLOGY_ID_CHARACTERS_MAX} characters at most.")
    topics = sum(
        len(each.source_topics)
        + len(each.state_changelog_topics)
        + len(each.repartition_sink_topics)
        + len(each.repartition_source_topics)
        for each in subtopologies
    )
    if topics > TOPICS_MAX:
        raise _invalid(f"The subtopologies have {topics} topics in all; the most are {TOPICS_MAX}.")
    entries = topics
    for each in subtopologies:
        entries += sum(len(topic.topic_configs) for topic in each.state_changelog_topics)
        entries += sum(len(topic.topic_configs) for topic in each.repartition_source_topics)
        entries += len(each.copartition_groups)
        if entries <= ENTRIES_MAX:
            entries += sum(
                len(group.source_topics) + len(group.source_topic_regex) + len(group.repartition_source_topics)
                for group in each.copartition_groups
            )
        if entries > ENTRIES_MAX:
            raise _invalid(f"The topology has more than {ENTRIES_MAX} topics, configurations and copartitioned topics.")


def _check_subtopology(subtopology: requested.Subtopology) -> None:
    for topics in (subtopology.repartition_source_topics, subtopology.state_changelog_topics):
        if len({topic.name for topic in topics}) < len(topics):
            raise _invalid(f"Subtopology {subtopology.subtopology_id} has several internal topics with the same name.")
        for topic in topics:
            if not 0 <= topic.partitions <= INTERNAL_TOPIC_PARTITIONS_MAX:
                raise _invalid(
                    f"Internal topic {cut_name(topic.name)} has {topic.partitions} partitions, which must be between 0 "
                    f"and {INTERNAL_TOPIC_PARTITIONS_MAX}."
                )
            configs = topic.topic_configs
            if len(configs) > 1 and len({config.key for config in configs}) < len(configs):
                raise _invalid(f"Internal topic {cut_name(topic.name)} has several values for the same configuration.")
    for group in subtopology.copartition_groups:
        if not (
            _are_indices(group.source_topics, len(subtopology.source_topics))
            and _are_indices(group.repartition_source_topics, len(subtopology.repartition_source_topics))
        ):
            raise _invalid_copartition_group(subtopology.subtopology_id)


def _are_indices(numbers: Sequence[int], size: int) -> bool:
    return not numbers or (min(numbers) >= 0 and max(numbers) < size)


def _invalid_copartition_group(subtopology_id: str) -> KafkaError:
    return _invalid(
        f"A copartition group of subtopology {cut_name(subtopology_id)} has the index of a topic that the subtopology "
        "does not have."
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def topology_of_request(message: requested.Topology) -> Topology:
    """Return the topology of a joining member; it is consistent if `check_topology` has accepted it."""
    return Topology(message.epoch, {each.subtopology_id: _subtopology(each) for each in message.subtopologies})


def topology_of_record(value: logged.StreamsGroupTopologyValue) -> Topology:
    """Return a stored topology, which may be inconsistent: a JVM node may have written it."""
    return Topology(value.epoch, {each.subtopology_id: _subtopology(each) for each in value.subtopologies})


def _subtopology(message: requested.Subtopology | logged.Subtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=message.subtopology_id,
        source_topics=tuple(message.source_topics),
        source_topic_regex=tuple(message.source_topic_regex),
        state_changelog_topics=_internal_topics(message.state_changelog_topics),
        repartition_sink_topics=tuple(message.repartition_sink_topics),
        repartition_source_topics=_internal_topics(message.repartition_source_topics),
        copartition_groups=tuple(
            CopartitionGroup(
                tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
            )
            for group in message.copartition_groups
        ),
    )


def _internal_topics(messages: Iterable[requested.TopicInfo | logged.TopicInfo]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple((config.key, config.value) for config in topic.topic_configs),
        )
        for topic in messages
    )


def topology_record_value(topology: Topology) -> logged.StreamsGroupTopologyValue:
    """Return the value of the record that stores the topology."""
    return logged.StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            logged.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=list(each.source_topics),
                source_topic_regex=list(each.source_topic_regex),
                state_changelog_topics=_logged_topics(each.state_changelog_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                repartition_source_topics=_logged_topics(each.repartition_source_topics),
                copartition_groups=[
                    logged.CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies.values()
        ],
    )


def _logged_topics(topics: Iterable[InternalTopic]) -> list[logged.TopicInfo]:
    return [
        logged.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[logged.TopicConfig(key=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]


def described_topology(topology: Topology) -> described.Topology:
    """Return the topology for a description, by subtopology id, with the topics of each list by name."""
    return described.Topology(
        epoch=topology.epoch,
        subtopologies=[
            described.Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=sorted(each.source_topics, key=string_order),
                repartition_sink_topics=sorted(each.repartition_sink_topics, key=string_order),
                state_changelog_topics=described_topics(each.state_changelog_topics),
                repartition_source_topics=described_topics(each.repartition_source_topics),
            )
            for each in sorted(topology.subtopologies.values(), key=lambda each: string_order(each.subtopology_id))
        ],
    )


def described_topics(topics: Iterable[InternalTopic]) -> list[described.TopicInfo]:
    """Return internal topics for a description, by name."""
    return [
        described.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[described.KeyValue(key=key, value=value) for key, value in topic.configs],
        )
        for topic in sorted(topics, key=lambda topic: string_order(topic.name))
    ]
