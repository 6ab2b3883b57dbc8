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


def test_too_few_brokers_give_no_proposal() -> None:
    assert without((9, 0, 1), {9}, Load([0, 1], [])) is None
    assert with_factor((0,), (0,), 3, Load([0, 1], [])) is None


def test_leaving_brokers_get_no_replica() -> None:
    assert without((8, 9), {8, 9}, Load([0, 1, 8], [])) == (0, 1)


def test_partition_keeps_as_many_racks_as_it_can() -> None:
    racks = {0: "a", 1: "a", 2: "b", 3: "c", 9: "b"}
    full = [(2, 3)] * 5

    assert without((0, 9), {9}, Load([0, 1, 2, 3], full, racks)) == (0, 2)
    assert without((9, 2, 0), {9}, Load([0, 1, 2, 3], full, racks)) == (3, 2, 0)
    assert with_factor((0,), (0,), 3, Load([0, 1, 2, 3], full, racks)) == (0, 2, 3)
    assert with_factor((0, 1, 2), (0, 1, 2), 2, Load([0, 1, 2], [], racks)) == (0, 2)
    assert with_factor((0, 1, 2), (0, 1), 2, Load([0, 1, 2], [], racks)) == (0, 1)


@given(data=st.data())
def test_rack_count_does_not_decrease_while_another_rack_has_a_broker(data: st.DataObject) -> None:
    racks = data.draw(st.dictionaries(st.integers(0, 9), st.sampled_from("abc"), min_size=2))
    replicas = data.draw(st.lists(st.sampled_from(sorted(racks)), min_size=1, max_size=4, unique=True))
    leaving = data.draw(st.sets(st.sampled_from(sorted(racks)), min_size=1))
    staying = sorted(racks.keys() - leaving)

    result = without(replicas, leaving, Load(staying, [], racks))

    if len(staying) < len(replicas):
        assert result is None
        return
    assert result is not None
    kept = {racks[node] for node in replicas if node not in leaving}
    reachable = {racks[node] for node in staying}
    room = len(replicas) - sum(node not in leaving for node in replicas)
    assert len({racks[node] for node in result}) == len(kept) + min(room, len(reachable - kept))


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


def test_added_replicas_go_to_the_least_loaded_brokers() -> None:
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


@pytest.mark.parametrize("partitions", [6, 7, 30])
@pytest.mark.parametrize(("count", "factor"), [(3, 2), (4, 3), (5, 3)])
def test_lower_factor_leaves_replicas_and_leaders_balanced(partitions: int, count: int, factor: int) -> None:
    brokers = range(count)
    before = [spread("t", index, brokers, count) for index in range(partitions)]
    load = Load(brokers, before)

    after = [with_factor(replicas, replicas, factor, load) for replicas in before]

    assert all(assignment is not None and len(assignment) == factor for assignment in after)
    kept = [node for assignment in after for node in assignment or ()]
    assert max(map(kept.count, brokers)) - min(map(kept.count, brokers)) <= 1
    assert [assignment and assignment[0] for assignment in after] == [replicas[0] for replicas in before]


def test_replica_of_a_lost_broker_is_removed_first() -> None:
    assert with_factor((0, 1, 2), (0, 1, 2), 2, Load([0, 2], [(0, 1, 2)])) == (0, 2)
