"""Topologies with the topics that exist, as lines of JSON: random ones, and what their configuration gives.

A line is ``{"topology": the value of its record in hex, "topics": {name: partitions}}``. A result has the problem or
the error, and subtopologies and missing topics as lists.
"""

import random
from typing import Any

from ottla.errors import KafkaError
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.streams.topics.configure import configure_topology
from ottla.groups.streams.topics.configured import ConfiguredTopology
from ottla.groups.streams.topology import InternalTopic, topology_of_record, topology_of_request, topology_record_value
from ottla.metadata.cache import MetadataCache
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionRegistration, TopicImage, TopicsImage
from ottla.purgatory.steps import run_to_end
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.streams_group_heartbeat import Subtopology, TopicInfo, Topology
from ottla.wire.messages.streams_group_log import StreamsGroupTopologyValue
from topologies import internal_topic, subtopology, topology_message

Case = dict[str, Any]
Result = dict[str, Any]


def cluster_topics(counts: dict[str, int]) -> ClusterTopics:
    """Return the topics of a cluster with these numbers of partitions."""
    by_name = {}
    for number, (name, count) in enumerate(counts.items(), 1):
        partitions = {index: PartitionRegistration((1,), (1,), 1, 0, 0, (ZERO_UUID,)) for index in range(count)}
        by_name[name] = TopicImage(name, Uuid(number.to_bytes(16, "big")), partitions)
    metadata = MetadataCache(SimulatedClock())
    metadata.image = MetadataImage(topics=TopicsImage({topic.topic_id: topic for topic in by_name.values()}, by_name))
    return ClusterTopics(metadata)


def case_of(message: Topology, topics: dict[str, int]) -> Case:
    value = topology_record_value(topology_of_request(message))
    return {"topology": value.encode(0).hex(), "topics": topics}


def configure(case: Case) -> Result:
    topology = topology_of_record(StreamsGroupTopologyValue.decode(bytes.fromhex(case["topology"]), 0))
    try:
        return result_of(run_to_end(configure_topology(topology, 7, cluster_topics(case["topics"]))))
    except KafkaError as error:
        return {"error": [error.code.name, error.message]}


def result_of(configured: ConfiguredTopology) -> Result:
    result: Result = {}
    if configured.problem is not None:
        result["problem"] = [int(configured.problem.status), configured.problem.detail]
    if configured.subtopologies is not None:
        result["subtopologies"] = [
            [
                subtopology_id,
                each.task_count,
                _partitions(each.repartition_source_topics.values()),
                _partitions(each.state_changelog_topics.values()),
            ]
            for subtopology_id, each in configured.subtopologies.items()
        ]
    result["missing"] = [
        [
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            {config.name: config.value for config in sorted(topic.configs, key=lambda config: config.name)},
        ]
        for topic in configured.internal_topics_to_create.values()
    ]
    return result


def _partitions(topics: Any) -> dict[str, int]:
    found: list[InternalTopic] = sorted(topics, key=lambda topic: topic.name)
    return {topic.name: topic.partitions for topic in found}


class RandomTopology:
    """A topology of up to ``subtopologies_max`` subtopologies, with chains, loops and contradictions among them."""

    def __init__(self, source: random.Random, *, subtopologies_max: int) -> None:
        self._source = source
        self._counts_max = source.choice([1, 2, 4])
        self._share_of_fixed = source.choice([0.0, 0.0, 0.2])
        size = source.randint(1, subtopologies_max)
        self._external = [f"input-{number}" for number in range(source.randint(1, size + 2))]
        self._repartition = [f"app-{source.randrange(10**6)}-repartition" for _ in range(source.randint(0, 2 * size))]
        self._changelogs = [f"app-store-{number}-changelog" for number in range(2 * size)]
        ids = [str(number) for number in range(size)]
        if source.random() < 0.3:
            ids = [f"{each}é{source.randrange(1000)}" for each in ids]
        source.shuffle(ids)
        self.message = topology_message(*map(self._subtopology, ids), epoch=source.randrange(3))

    def case(self) -> Case:
        source = self._source
        topics = {name: source.randint(1, self._counts_max) for name in self._external if source.random() < 0.99}
        share = source.choice([0.0, 0.0, 0.3, 1.0])
        topics |= {
            name: source.randint(1, self._counts_max)
            for name in (*self._repartition, *self._changelogs)
            if source.random() < share
        }
        if source.random() < 0.5:
            # Most topics exist as they should.
            right = {"topology": case_of(self.message, {})["topology"], "topics": topics}
            created = {name: count for name, count, *_ in configure(right).get("missing", [])}
            topics = topics | {name: count for name, count in created.items() if source.random() < 0.9}
        return case_of(self.message, topics)

    def _subtopology(self, subtopology_id: str) -> Subtopology:
        source = self._source
        sources = self._some(self._external, 2)
        repartition = [self._internal(name, self._share_of_fixed) for name in self._some(self._repartition, 3)]
        if not sources and not repartition and source.random() < 0.9:
            sources = [source.choice(self._external)]
        changelogs = [self._internal(name, 0.0) for name in self._some(self._changelogs, 4)]
        groups = [(self._indices(sources), self._indices(repartition)) for _ in range(source.choice([0, 0, 1, 2]))]
        return subtopology(
            subtopology_id,
            sources=sources,
            repartition_sources=repartition,
            sinks=self._some(self._repartition, 4),
            changelogs=changelogs,
            copartitioned=groups,
        )

    def _internal(self, name: str, share_of_fixed: float) -> TopicInfo:
        source = self._source
        return internal_topic(
            "not/valid" if source.random() < 0.001 else name,
            source.randint(1, self._counts_max) if source.random() < share_of_fixed else 0,
            replication_factor=source.choice([0, 0, 3]),
            configs=[("cleanup.policy", "compact"), ("a", "")][: source.randrange(3)],
        )

    def _some(self, names: list[str], most: int) -> list[str]:
        unique = sorted(set(names))
        return self._source.sample(unique, min(len(unique), self._source.randint(0, most)))

    def _indices(self, topics: list[Any]) -> list[int]:
        return [index for index in range(len(topics)) if self._source.random() < 0.6]
