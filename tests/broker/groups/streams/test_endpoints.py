"""`partitions_of_endpoint`: the partitions that clients look for at a member, by its active and standby tasks."""

import pytest

from ottla.groups.streams.topics.configure import configure_topology
from ottla.groups.streams.topics.configured import ConfiguredTopology
from ottla.groups.streams.topics.endpoints import partitions_of_endpoint
from ottla.groups.streams.topology import topology_of_request
from ottla.purgatory.steps import run_to_end
from ottla.wire.messages.streams_group_heartbeat import TopicPartition
from topologies import internal_topic, subtopology, topology_message
from topology_cases import cluster_topics

COUNTS = {"a": 4, "b": 2, "r": 4, "c": 4}
TOPICS = cluster_topics(COUNTS)


@pytest.fixture
def configured() -> ConfiguredTopology:
    message = topology_message(
        subtopology("0", sources=["b", "a"], sinks=["r"]),
        subtopology("1", repartition_sources=[internal_topic("r")], changelogs=[internal_topic("c")]),
    )
    return run_to_end(configure_topology(topology_of_request(message), 0, TOPICS))


def shown(partitions: list[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [(each.topic, each.partitions) for each in partitions]


def test_source_topics_of_active_and_standby_tasks_are_listed(configured: ConfiguredTopology) -> None:
    found = partitions_of_endpoint({"1": {3: 7, 0: 6}, "0": frozenset({1})}, {"1": frozenset({2})}, configured, TOPICS)

    assert shown(found.active) == [("a", [1]), ("b", [1]), ("r", [0, 3])]
    assert shown(found.standby) == [("r", [2])]


def test_topic_with_fewer_partitions_than_tasks_has_the_first_ones(configured: ConfiguredTopology) -> None:
    found = partitions_of_endpoint({"0": frozenset({0, 1, 3})}, {}, configured, TOPICS)

    assert shown(found.active) == [("a", [0, 1, 3]), ("b", [0, 1])]


def test_deleted_topic_and_unknown_subtopology_are_left_out(configured: ConfiguredTopology) -> None:
    found = partitions_of_endpoint({"0": frozenset({0}), "9": frozenset({0})}, {}, configured, cluster_topics({"a": 4}))

    assert shown(found.active) == [("a", [0])]


def test_topology_that_is_not_configured_has_no_partitions() -> None:
    missing = run_to_end(
        configure_topology(topology_of_request(topology_message(subtopology(sources=["z"]))), 0, TOPICS)
    )

    assert partitions_of_endpoint({"0": frozenset({0})}, {}, missing, TOPICS) == ([], [])
