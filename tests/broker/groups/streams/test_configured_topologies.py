"""`configure_topology`: numbers of partitions and tasks, and what is missing, as Kafka decides them.

``kafka_topologies.jsonl`` is recorded from Kafka 4.3.1 (tests/interop/test_streams_topologies.py).
"""

from pathlib import Path

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.streams.topics.configure import TASKS_MAX, configure_topology
from ottla.groups.streams.topics.configured import (
    ConfiguredTopology,
    StreamsStatus,
    described_configured_topology,
)
from ottla.groups.streams.topology import CopartitionGroup, Subtopology, Topology, topology_of_request
from ottla.purgatory.steps import run_to_end
from ottla.wire.messages import streams_group_heartbeat as requested
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from recorded_cases import recorded_params
from topologies import internal_topic, subtopology, topology_message
from topology_cases import Case, Result, cluster_topics, configure

RECORDED = recorded_params(Path(__file__).with_name("kafka_topologies.jsonl"))


@pytest.mark.parametrize(("case", "kafka"), RECORDED)
def test_configured_topology_is_that_of_kafka(case: Case, kafka: Result) -> None:
    assert configure(case) == kafka


def configured(message: requested.Topology, topics: dict[str, int]) -> ConfiguredTopology:
    return run_to_end(configure_topology(topology_of_request(message), 77, cluster_topics(topics)))


def task_counts(result: ConfiguredTopology) -> dict[str, int]:
    assert result.subtopologies is not None
    return {subtopology_id: each.task_count for subtopology_id, each in result.subtopologies.items()}


WORD_COUNT = topology_message(
    subtopology("0", sources=["lines"], sinks=["words"]),
    subtopology(
        "1",
        repartition_sources=[internal_topic("words", configs=[("segment.ms", "9")])],
        changelogs=[internal_topic("counts", replication_factor=3, configs=[("cleanup.policy", "compact")])],
    ),
    epoch=4,
)


def test_missing_internal_topics_are_created_with_the_partitions_of_the_source() -> None:
    result = configured(WORD_COUNT, {"lines": 6})

    assert (result.epoch, result.metadata_hash, result.is_ready) == (4, 77, False)
    assert result.problem is not None
    assert result.problem.status is StreamsStatus.MISSING_INTERNAL_TOPICS
    assert set(result.problem.detail.removeprefix("Internal topics are missing: ").split(", ")) == {"words", "counts"}
    assert task_counts(result) == {"0": 6, "1": 6}
    assert result.internal_topics_to_create == {
        "words": CreatableTopic(
            name="words",
            num_partitions=6,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name="segment.ms", value="9")],
        ),
        "counts": CreatableTopic(
            name="counts",
            num_partitions=6,
            replication_factor=3,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        ),
    }


def test_topology_is_ready_when_all_topics_exist() -> None:
    result = configured(WORD_COUNT, {"lines": 6, "words": 6, "counts": 6})

    assert result.is_ready
    assert result.internal_topics_to_create == {}
    assert result.subtopologies is not None
    assert result.subtopologies["1"].state_changelog_topics["counts"].partitions == 6
    assert result.subtopologies["1"].repartition_source_topics.keys() == {"words"}
    assert result.subtopologies["0"].repartition_sink_topics == {"words"}


def test_description_of_a_configured_topology_has_its_numbers_of_partitions() -> None:
    described = described_configured_topology(configured(WORD_COUNT, {"lines": 6, "words": 6, "counts": 6}))

    assert described.epoch == 4
    assert described.subtopologies is not None
    first, second = described.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["lines"], ["words"])
    assert [(topic.name, topic.partitions) for topic in second.repartition_source_topics] == [("words", 6)]
    assert [(topic.name, topic.partitions) for topic in second.state_changelog_topics] == [("counts", 6)]


def chain(length: int) -> requested.Topology:
    """Return subtopologies of which each reads what the one before it writes."""
    return topology_message(
        subtopology("0", sources=["in"], sinks=["r1"]),
        *(
            subtopology(str(number), repartition_sources=[internal_topic(f"r{number}")], sinks=[f"r{number + 1}"])
            for number in range(1, length)
        ),
        subtopology(str(length), repartition_sources=[internal_topic(f"r{length}")]),
    )


def test_partitions_are_derived_through_a_chain_of_repartition_topics() -> None:
    assert set(task_counts(configured(chain(400), {"in": 3})).values()) == {3}


def test_fixed_number_of_a_repartition_topic_wins_over_its_writer() -> None:
    message = topology_message(
        subtopology("0", sources=["in"], sinks=["r"]), subtopology("1", repartition_sources=[internal_topic("r", 8)])
    )

    assert task_counts(configured(message, {"in": 3})) == {"0": 3, "1": 8}


def test_copartitioned_repartition_topic_gets_the_partitions_of_the_source_topic() -> None:
    message = topology_message(
        subtopology("0", sources=["in"], sinks=["r"]),
        subtopology("1", sources=["other"], repartition_sources=[internal_topic("r")], copartitioned=[([0], [0])]),
    )

    assert task_counts(configured(message, {"in": 3, "other": 5})) == {"0": 3, "1": 5}


@pytest.mark.parametrize(
    ("message", "topics", "status", "detail"),
    [
        pytest.param(
            topology_message(subtopology(sources=["d", "b", "a", "c"]), subtopology("1", sources=["a"])),
            {},
            StreamsStatus.MISSING_SOURCE_TOPICS,
            "Source topics a, b, c and 1 additional topics are missing.",
            id="missing-sources",
        ),
        pytest.param(
            topology_message(subtopology(sources=["a", "b", "c"], copartitioned=[([0, 1], [])])),
            {"a": 1, "b": 2, "c": 3},
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{a=1, b=2}]",
            id="different-sources",
        ),
        pytest.param(
            topology_message(
                subtopology(sources=["a"], repartition_sources=[internal_topic("r", 2)], copartitioned=[([0], [0])])
            ),
            {"a": 3},
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "Number of partitions [2] of repartition topic [r] doesn't match number of partitions [3] of the source "
            "topic.",
            id="fixed-topic-next-to-a-source",
        ),
        pytest.param(
            topology_message(
                subtopology(
                    repartition_sources=[internal_topic("r", 2), internal_topic("s", 3)], copartitioned=[([], [0, 1])]
                )
            ),
            {},
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "Following topics do not have the same number of partitions: [{r=2, s=3}]",
            id="different-fixed-topics",
        ),
        pytest.param(
            WORD_COUNT,
            {"lines": 6, "words": 6, "counts": 5},
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic counts has different number of partitions: expected 6, found 5",
            id="existing-changelog",
        ),
        pytest.param(
            topology_message(*(subtopology(str(number), sources=["a"]) for number in range(6))),
            {"a": 2_000},
            StreamsStatus.INCORRECTLY_PARTITIONED_TOPICS,
            "The subtopologies have 12000 tasks in all for the partitions of their source topics; a streams group has "
            "10000 at most.",
            id="too-many-tasks",
        ),
    ],
)
def test_topology_with_a_problem_has_no_tasks(
    message: requested.Topology, topics: dict[str, int], status: StreamsStatus, detail: str
) -> None:
    result = configured(message, topics)

    assert result.problem is not None
    assert (result.problem.status, result.problem.detail) == (status, detail)
    assert (result.is_ready, result.subtopologies, result.internal_topics_to_create) == (False, None, {})


def test_most_tasks_are_accepted() -> None:
    message = topology_message(*(subtopology(str(number), sources=["a"]) for number in range(5)))

    assert sum(task_counts(configured(message, {"a": 2_000})).values()) == TASKS_MAX


LOOPS = (
    "Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot "
    "be resolved."
)


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        pytest.param(
            topology_message(
                subtopology("0", repartition_sources=[internal_topic("r")], sinks=["s"]),
                subtopology("1", repartition_sources=[internal_topic("s")], sinks=["r"]),
            ),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            LOOPS,
            id="loop",
        ),
        pytest.param(
            topology_message(subtopology(repartition_sources=[internal_topic("r")])),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Failed to compute number of partitions for all repartition topics, because a repartition source topic is "
            "never used as a sink topic.",
            id="never-written",
        ),
        pytest.param(
            topology_message(subtopology("5", changelogs=[internal_topic("c")])),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "No source topics found for subtopology 5",
            id="no-source",
        ),
        pytest.param(
            topology_message(subtopology(sources=["a"], changelogs=[internal_topic("a/b")])),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
            "'-'",
            id="name-of-a-changelog",
        ),
        # Those below are rejected in requests, but a JVM node may have stored them.
        pytest.param(
            topology_message(subtopology(repartition_sources=[internal_topic("r", -3)])),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            "Number of partitions must be at least 1.",
            id="negative-number",
        ),
        *(
            pytest.param(
                topology_message(subtopology(sources=["a"], copartitioned=[indices])),
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "A copartition group of subtopology 0 has the index of a topic that the subtopology does not have.",
                id=f"copartition-group-{indices}",
            )
            for indices in (([1], []), ([-1], []), ([], [0]))
        ),
    ],
)
def test_topology_that_cannot_be_configured_is_an_error(
    message: requested.Topology, code: ErrorCode, text: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        configured(message, {"a": 1})

    assert (caught.value.code, caught.value.message) == (code, text)


def test_loop_that_a_source_topic_enters_is_resolved() -> None:
    message = topology_message(
        subtopology("0", sources=["a"], repartition_sources=[internal_topic("r")], sinks=["s"]),
        subtopology("1", repartition_sources=[internal_topic("s")], sinks=["r"]),
    )

    assert task_counts(configured(message, {"a": 4})) == {"0": 4, "1": 4}


def test_topology_without_subtopologies_is_ready() -> None:
    result = configured(topology_message(), {})

    assert result.is_ready
    assert result.subtopologies == {}


def test_detail_about_long_names_is_short() -> None:
    names = [f"{letter}" * 30_000 for letter in "abc"]

    result = configured(topology_message(subtopology(sources=names)), {})

    assert result.problem is not None
    assert len(result.problem.detail) < 2_000


def test_subtopologies_are_sorted_as_strings() -> None:
    message = topology_message(*(subtopology(str(number), sources=["a"]) for number in (10, 2, 1)))

    assert list(task_counts(configured(message, {"a": 1}))) == ["1", "10", "2"]


def test_stored_topology_with_the_same_topic_twice_is_configured() -> None:
    twice = internal_topic("c")
    topology = topology_of_request(topology_message(subtopology(sources=["a"], changelogs=[twice, twice])))

    result = run_to_end(configure_topology(topology, 0, cluster_topics({"a": 2, "c": 2})))

    assert result.is_ready


def test_empty_copartition_group_does_not_count() -> None:
    topology = Topology(
        0,
        {
            "0": Subtopology(
                subtopology_id="0",
                source_topics=("a", "b"),
                source_topic_regex=(),
                state_changelog_topics=(),
                repartition_sink_topics=(),
                repartition_source_topics=(),
                copartition_groups=(CopartitionGroup((), (), ()),),
            )
        },
    )

    assert task_counts(run_to_end(configure_topology(topology, 0, cluster_topics({"a": 1, "b": 2})))) == {"0": 2}
