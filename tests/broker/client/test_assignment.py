"""Proposals for reassignments: as few moves as needed, the load spread evenly, and no broker twice."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.assignment import Load, spread, with_factor, without


def test_broker_that_leaves_is_replaced_in_its_place_by_the_least_loaded() -> None:
    load = Load([0, 1, 2, 3], [(0, 1, 9), (0, 2, 9)])

    assert without((9, 0, 1), {9}, load) == (3, 0, 1)
    assert without((0, 9, 1), {9}, load) == (0, 2, 1)


def test_too_few_brokers_are_told() -> None:
    assert without((9, 0, 1), {9}, Load([0, 1], [])) is None
    assert with_factor((0,), (0,), 3, Load([0, 1], [])) is None


def test_brokers_that_leave_take_nothing_over() -> None:
    assert without((8, 9), {8, 9}, Load([0, 1, 8], [])) == (0, 1)


@pytest.mark.parametrize(
    ("isr", "expected"),
    [
        pytest.param((0, 1, 2), (0, 1), id="the-last-goes"),
        pytest.param((0, 2), (0, 2), id="who-lags-goes-first"),
        pytest.param((1, 2), (0, 1), id="but-never-the-preferred-leader"),
    ],
)
def test_fewer_replicas(isr: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert with_factor((0, 1, 2), isr, 2, Load([0, 1, 2], [])) == expected


def test_more_replicas_go_where_there_are_fewest() -> None:
    load = Load([0, 1, 2], [(1,), (1,)])

    assert with_factor((0,), (0,), 2, load) == (0, 2)
    assert with_factor((0,), (0,), 3, load) == (0, 2, 1)


@given(
    brokers=st.sets(st.integers(0, 50), min_size=1, max_size=8),
    rounds=st.integers(1, 4),
    topic=st.text(max_size=5),
    data=st.data(),
)
def test_topic_is_spread_evenly(brokers: set[int], rounds: int, topic: str, data: st.DataObject) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    ordered = sorted(brokers)

    replicas = [spread(topic, number, ordered, factor) for number in range(len(ordered) * rounds)]

    assert all(len(set(nodes)) == factor for nodes in replicas)
    assert set(Counter(nodes[0] for nodes in replicas).values()) == {rounds}
    assert set(Counter(node for nodes in replicas for node in nodes).values()) == {rounds * factor}
