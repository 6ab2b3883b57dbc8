"""`Topology`: requests, records and descriptions have the same content, and invalid topologies are rejected."""

from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    Subtopology,
    Topology,
    check_topology,
    described_topology,
    topology_of_record,
    topology_of_request,
    topology_record_value,
)
from ottla.wire.messages import streams_group_heartbeat as requested
from ottla.wire.messages.streams_group_log import StreamsGroupTopologyValue
from topologies import internal_topic, subtopology, topology_message

WORD_COUNT = topology_message(
    subtopology(
        "1",
        repartition_sources=[internal_topic("app-words-repartition", replication_factor=3)],
        changelogs=[
            internal_topic("app-sum-changelog"),
            internal_topic("app-count-changelog", configs=[("cleanup.policy", "compact"), ("a", "b")]),
        ],
        copartitioned=[([], [0])],
    ),
    subtopology("0", sources=["lines", "letters"], sinks=["app-words-repartition"], copartitioned=[([1, 0], [])]),
    epoch=5,
)


def test_request_is_read_with_its_order() -> None:
    topology = topology_of_request(WORD_COUNT)

    assert topology == Topology(
        5,
        {
            "0": Subtopology(
                subtopology_id="0",
                source_topics=("lines", "letters"),
                source_topic_regex=(),
                state_changelog_topics=(),
                repartition_sink_topics=("app-words-repartition",),
                repartition_source_topics=(),
                copartition_groups=(CopartitionGroup((1, 0), (), ()),),
            ),
            "1": Subtopology(
                subtopology_id="1",
                source_topics=(),
                source_topic_regex=(),
                state_changelog_topics=(
                    InternalTopic("app-sum-changelog", 0, 0, ()),
                    InternalTopic("app-count-changelog", 0, 0, (("cleanup.policy", "compact"), ("a", "b"))),
                ),
                repartition_sink_topics=(),
                repartition_source_topics=(InternalTopic("app-words-repartition", 0, 3, ()),),
                copartition_groups=(CopartitionGroup((), (), (0,)),),
            ),
        },
    )
    assert list(topology.subtopologies) == ["1", "0"]


def test_required_topics_are_those_that_are_read_and_the_changelogs() -> None:
    topology = topology_of_request(
        topology_message(
            subtopology("0", sources=["a"], sinks=["only-written"], changelogs=[internal_topic("c")]),
            subtopology("1", repartition_sources=[internal_topic("r", 4)], sources=["a"]),
        )
    )

    assert topology.required_topics == {"a", "r", "c"}
    assert topology.required_topics is topology.required_topics


def test_record_has_the_bytes_of_the_request() -> None:
    value = topology_record_value(topology_of_request(WORD_COUNT))

    stored = value.encode(0)
    # Both messages have the same fields, in the same order.
    assert stored == StreamsGroupTopologyValue(epoch=5, subtopologies=WORD_COUNT.subtopologies).encode(0)  # type: ignore[arg-type]
    assert topology_of_record(StreamsGroupTopologyValue.decode(stored, 0)) == topology_of_request(WORD_COUNT)


def test_description_is_sorted_by_id_and_name() -> None:
    described = described_topology(topology_of_request(WORD_COUNT))

    assert described.epoch == 5
    assert described.subtopologies is not None
    first, second = described.subtopologies
    assert (first.subtopology_id, second.subtopology_id) == ("0", "1")
    assert first.source_topics == ["letters", "lines"]
    assert first.repartition_sink_topics == ["app-words-repartition"]
    assert [topic.name for topic in second.state_changelog_topics] == ["app-count-changelog", "app-sum-changelog"]
    configs = second.state_changelog_topics[0].topic_configs
    assert [(config.key, config.value) for config in configs] == [("cleanup.policy", "compact"), ("a", "b")]
    (repartition,) = second.repartition_source_topics
    assert (repartition.name, repartition.partitions, repartition.replication_factor) == ("app-words-repartition", 0, 3)


SOURCES = subtopology("0", sources=["b", "a"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(topology_message(SOURCES, epoch=2), id="epoch"),
        pytest.param(topology_message(subtopology("0", sources=["a", "b"])), id="order-of-topics"),
        pytest.param(topology_message(subtopology("1", sources=["b", "a"])), id="subtopology-id"),
        pytest.param(topology_message(SOURCES, subtopology("1", sources=["c"])), id="one-more"),
    ],
)
def test_topologies_that_differ_are_not_equal(other: requested.Topology) -> None:
    assert topology_of_request(other) != topology_of_request(topology_message(SOURCES))


def test_order_of_subtopologies_does_not_count() -> None:
    second = subtopology("1", sources=["c"])

    one, other = topology_message(SOURCES, second), topology_message(second, SOURCES)

    assert topology_of_request(one) == topology_of_request(other)


def test_valid_topology_is_accepted() -> None:
    check_topology(WORD_COUNT)
    check_topology(topology_message())

    assert topology_of_request(topology_message()).subtopologies == {}


INVALID = ErrorCode.STREAMS_INVALID_TOPOLOGY
REGEX = requested.Subtopology(subtopology_id="0", source_topic_regex=["a.*"])
DUPLICATE = internal_topic("c")


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        pytest.param(
            topology_message(REGEX),
            ErrorCode.INVALID_REQUEST,
            "Regular expressions for source topics are not supported yet.",
            id="regular-expression",
        ),
        pytest.param(
            topology_message(subtopology(sources=["a"], changelogs=[internal_topic("c", 3)])),
            INVALID,
            "Changelog topic c must have an undefined partition count, but it is set to 3.",
            id="partitions-of-a-changelog",
        ),
        pytest.param(
            topology_message(SOURCES, epoch=-1),
            ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH,
            "Topology epoch must be non-negative.",
            id="negative-epoch",
        ),
        pytest.param(
            topology_message(SOURCES, SOURCES),
            INVALID,
            "The topology has several subtopologies with the same id.",
            id="duplicate-subtopology",
        ),
        pytest.param(
            topology_message(subtopology(changelogs=[DUPLICATE, DUPLICATE])),
            INVALID,
            "Subtopology 0 has several internal topics with the same name.",
            id="duplicate-changelog",
        ),
        pytest.param(
            topology_message(subtopology(repartition_sources=[DUPLICATE, DUPLICATE])),
            INVALID,
            "Subtopology 0 has several internal topics with the same name.",
            id="duplicate-repartition-source",
        ),
        pytest.param(
            topology_message(subtopology(changelogs=[internal_topic("c", configs=[("k", "1"), ("k", "2")])])),
            INVALID,
            "Internal topic c has several values for the same configuration.",
            id="contradictory-configuration",
        ),
        *(
            pytest.param(
                topology_message(subtopology(repartition_sources=[internal_topic("r", partitions)])),
                INVALID,
                f"Internal topic r has {partitions} partitions, which must be between 0 and 10000.",
                id=f"repartition-topic-with-{partitions}-partitions",
            )
            for partitions in (-1, 10_001, 2**31 - 1)
        ),
        *(
            pytest.param(
                topology_message(
                    subtopology(
                        "7", sources=["a", "b"], repartition_sources=[internal_topic("r")], copartitioned=[indices]
                    )
                ),
                INVALID,
                "A copartition group of subtopology 7 has the index of a topic that the subtopology does not have.",
                id=f"copartition-group-{indices}",
            )
            for indices in (([2], []), ([0, -1], []), ([], [1]), ([0], [-1]))
        ),
    ],
)
def test_invalid_topology_is_rejected(message: requested.Topology, code: ErrorCode, text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topology(message)

    assert (caught.value.code, caught.value.message) == (code, text)


def of_size(*, subtopologies: int = 1, topics: int = 0, configs: int = 0, indices: int = 0) -> requested.Topology:
    """Return a topology with numbers of entries; all topics but one belong to the first subtopology."""
    changelogs = [internal_topic("c", configs=[(str(number), "") for number in range(configs)])] if configs else []
    first = subtopology(
        "first",
        sources=[f"s{number}" for number in range(topics)],
        changelogs=changelogs,
        copartitioned=[([0] * indices, [])] if indices else [],
    )
    return topology_message(first, *(subtopology(str(number)) for number in range(1, subtopologies)))


AT_THE_BOUND = [
    pytest.param(lambda more: of_size(subtopologies=500 + more), "501 subtopologies; the most are 500", id="sub"),
    pytest.param(lambda more: of_size(topics=2_000 + more), "2001 topics in all; the most are 2000", id="topics"),
    pytest.param(lambda more: of_size(configs=9_999 + more), "more than 10000 topics, configurations", id="configs"),
    pytest.param(lambda more: of_size(topics=1, indices=9_998 + more), "more than 10000 topics", id="copartitioned"),
    pytest.param(
        lambda more: topology_message(subtopology("x" * (249 + more))), "249 characters at most", id="length-of-an-id"
    ),
    pytest.param(
        lambda more: topology_message(subtopology(repartition_sources=[internal_topic("r", 10_000 + more)])),
        "between 0 and 10000",
        id="partitions",
    ),
]


@pytest.mark.parametrize(("with_more", "text"), AT_THE_BOUND)
def test_topology_at_a_bound_is_accepted_and_above_it_rejected(
    with_more: Callable[[int], requested.Topology], text: str
) -> None:
    check_topology(with_more(0))

    with pytest.raises(KafkaError, match=text) as caught:
        check_topology(with_more(1))
    assert caught.value.code is INVALID
