"""Internal topics that do not exist yet, and those that exist with another number of partitions.

Source: InternalTopicManager.missingInternalTopics, InternalTopicManager.toCreatableTopic of Apache Kafka 4.3.1.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from ottla.groups.streams.topics.configured import ConfiguredSubtopology
from ottla.groups.streams.topics.problem import incorrectly_partitioned
from ottla.groups.streams.topology import InternalTopic, Topology
from ottla.java_hashes import bucket_of, buckets_of_grown, string_hash
from ottla.purgatory.hash_order import in_hash_order
from ottla.purgatory.steps import Steps, sorted_in_steps
from ottla.quoting import cut_name
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

_DEFAULT_REPLICATION_FACTOR: Final = -1
_HASHES_PER_STEP: Final = 32
_LISTS_PER_STEP: Final = 64


def missing_internal_topics(
    topology: Topology, subtopologies: Mapping[str, ConfiguredSubtopology], existing: Mapping[str, int]
) -> Steps[dict[str, CreatableTopic]]:
    """Return the internal topics to create, in the order in which Kafka names them.

    Args:
        topology: the topology itself, for the order in which its topics are checked.
        subtopologies: configured, sorted by id.
        existing: the numbers of partitions of the topics that exist.

    Raises:
        TopicConfigurationError: INCORRECTLY_PARTITIONED_TOPICS, a topic exists with another number of partitions.
    """
    expected = {
        topic.name: topic
        for each in subtopologies.values()
        for topic in chain(each.repartition_source_topics.values(), each.state_changelog_topics.values())
    }
    yield None
    different = {name for name, topic in expected.items() if existing.get(name, topic.partitions) != topic.partitions}
    if different:
        name = yield from _first_required(topology, different)
        raise incorrectly_partitioned(
            f"Existing topic {cut_name(name)} has different number of partitions: expected "
            f"{expected[name].partitions}, found {existing[name]}"
        )
    yield None
    missing = expected.keys() - existing.keys()
    if not missing:
        return {}
    names = yield from _in_order(subtopologies, missing, buckets_of_grown(len(expected)))
    creatable: dict[str, CreatableTopic] = {}
    for name in names:
        creatable[name] = _creatable(expected[name])
        if len(creatable) % _HASHES_PER_STEP == 0:
            yield None
    return creatable


def _first_required(topology: Topology, names: set[str]) -> Steps[str]:
    """Return the one of ``names`` that comes first in Kafka's hash set of required topics."""
    ids = yield from in_hash_order(
        list(topology.subtopologies), string_hash, buckets_of_grown(len(topology.subtopologies))
    )
    found: dict[str, None] = {}
    for subtopology in map(topology.subtopologies.__getitem__, ids):
        internal = chain(subtopology.repartition_source_topics, subtopology.state_changelog_topics)
        required = chain(subtopology.source_topics, (topic.name for topic in internal))
        found.update((name, None) for name in required if name in names)
    buckets = buckets_of_grown(len(topology.required_topics))
    return (yield from in_hash_order(list(found), string_hash, buckets))[0]


def _in_order(subtopologies: Mapping[str, ConfiguredSubtopology], names: set[str], buckets: int) -> Steps[list[str]]:
    """Return ``names`` as Kafka's hash table of internal topics with ``buckets`` buckets iterates over them.

    In a bucket the order is that of insertion, which again is that of a hash table for each list of a subtopology.
    """
    keys: list[tuple[int, int, int, int, str]] = []
    added: set[str] = set()
    for number, topics in enumerate(_lists(subtopologies)):
        own_buckets = buckets_of_grown(len(topics))
        for position, name in enumerate(topics):
            if name in names and name not in added:
                added.add(name)
                code = string_hash(name)
                keys.append((bucket_of(code, buckets), number, bucket_of(code, own_buckets), position, name))
                if len(keys) % _HASHES_PER_STEP == 0:
                    yield None
        if number % _LISTS_PER_STEP == 0:
            yield None
    return [key[-1] for key in (yield from sorted_in_steps(keys))]


def _lists(subtopologies: Mapping[str, ConfiguredSubtopology]) -> Iterator[Mapping[str, InternalTopic]]:
    for each in subtopologies.values():
        yield each.repartition_source_topics
        yield each.state_changelog_topics


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _DEFAULT_REPLICATION_FACTOR,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )
