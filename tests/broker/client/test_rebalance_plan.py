"""A rebalance plan as a value and as text: its id depends on the moves, and its text form can be parsed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.rebalance_plan import Move, moves_json, parse_moves, plan_id, plan_rebalance, remaining_moves
from ottla.types import TopicPartition

FLIGHTS = {TopicPartition("flights", number): nodes for number, nodes in enumerate([(0, 1)] * 4)}


def test_plan_shows_the_load_of_each_broker_before_and_after() -> None:
    plan = plan_rebalance(FLIGHTS, {0: "a", 1: "b", 2: "b"}, dict.fromkeys(FLIGHTS, 3 * 1024**2))

    assert plan.summary == "3 partitions change: 2 replicas are copied (6.0 MiB), 1 get another preferred leader only"
    assert plan.table() == (
        "BROKER  RACK  REPLICAS  LEADERS  BYTES\n"
        "0       a     4 -> 4    4 -> 1   12.0 MiB -> 12.0 MiB\n"
        "1       b     4 -> 2    0 -> 1   12.0 MiB -> 6.0 MiB\n"
        "2       b     0 -> 2    0 -> 2   0 B -> 6.0 MiB\n"
    )


def test_balanced_cluster_gives_an_empty_plan() -> None:
    plan = plan_rebalance({TopicPartition("t", 0): (0, 1)}, {0: None, 1: None})

    assert (plan.moves, plan.summary, plan.size_bytes) == ((), "nothing has to move", None)


def test_unknown_sizes_are_not_shown() -> None:
    plan = plan_rebalance(FLIGHTS, {0: None, 1: None, 2: None})

    assert "copied," in plan.summary
    assert plan.table().splitlines()[1].endswith("?")


moves = st.lists(
    st.builds(
        Move,
        st.builds(TopicPartition, st.text(max_size=4), st.integers(0, 99)),
        st.lists(st.integers(0, 9), max_size=3).map(tuple),
        st.lists(st.integers(0, 9), max_size=3).map(tuple),
    ),
    max_size=4,
)


@given(moves)
def test_moves_are_read_back_as_they_were_written(written: list[Move]) -> None:
    assert parse_moves(moves_json(written)) == tuple(written)


@given(moves, moves)
def test_plan_id_depends_on_the_moves_and_is_no_number(some: list[Move], others: list[Move]) -> None:
    assert (plan_id(some) == plan_id(others)) == (some == others)
    assert plan_id(some).startswith("r")


def test_moves_have_the_format_of_kafka_reassign_partitions() -> None:
    text = moves_json([Move(TopicPartition("t", 1), (0, 1), (2, 1))])

    assert json.loads(text) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 1], "before": [0, 1]}],
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"partitions": [{"topic": "t"}]}', '{"partitions": 3}'])
def test_other_text_is_rejected_as_moves(text: str) -> None:
    with pytest.raises(ValueError, match=r"no list of moves|Expecting value"):
        parse_moves(text)


SOME = (Move(TopicPartition("t", 0), (0, 1), (2, 1)), Move(TopicPartition("t", 1), (0, 1), (1, 0)))


@pytest.mark.parametrize(
    ("targets", "left"),
    [
        pytest.param([(0, 1), (0, 1)], SOME, id="all"),
        pytest.param([(2, 1), (0, 1)], SOME[1:], id="one-has-moved-or-is-being-reassigned"),
        pytest.param([(2, 1), (1, 0)], (), id="none"),
        pytest.param([(2, 1)], "t-1 no longer exists", id="topic-gone"),
        pytest.param([(1, 2), (0, 1)], "t-0 is on 1, 2 now, and was on 0, 1", id="moved-by-another-client"),
    ],
)
def test_remaining_moves_depend_on_the_current_replicas(targets: list[tuple[int, ...]], left: object) -> None:
    now = {TopicPartition("t", number): nodes for number, nodes in enumerate(targets)}

    assert remaining_moves(SOME, now, [0, 1, 2]) == left


def test_plan_does_not_fit_without_a_broker_that_it_needs_yet() -> None:
    now = {TopicPartition("t", 0): (0, 1), TopicPartition("t", 1): (0, 1)}

    assert remaining_moves(SOME, now, [0, 1]) == "broker 2 no longer exists"
    assert remaining_moves(SOME, {**now, TopicPartition("t", 0): (2, 1)}, [0, 1]) == SOME[1:]
