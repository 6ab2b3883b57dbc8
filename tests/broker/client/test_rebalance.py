"""Rebalance plans: the rack count never decreases, replicas are balanced by few copies, and results are stable."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.rebalance import balance_partitions
from ottla.types import TopicPartition

Assignments = dict[TopicPartition, tuple[int, ...]]


def of(*replicas: Sequence[int], topic: str = "t") -> Assignments:
    return {TopicPartition(topic, number): tuple(nodes) for number, nodes in enumerate(replicas)}


def counts(assignments: Mapping[TopicPartition, Sequence[int]], racks: Mapping[int, Any]) -> dict[int, int]:
    held = Counter(node for nodes in assignments.values() for node in nodes)
    return {node: held[node] for node in racks}


def copies(before: Assignments, after: Assignments) -> int:
    return sum(len(set(after[it]) - set(before[it])) for it in before)


def fewest_copies(held: Mapping[int, int]) -> int:
    """Return how many replicas must move for counts that differ by one at most, if all moves are allowed."""
    floor, more = divmod(sum(held.values()), len(held))
    ordered = sorted(held.values(), reverse=True)
    return sum(max(0, count - floor - (place < more)) for place, count in enumerate(ordered))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignments, dict[int, str | None]]:
    nodes = draw(st.lists(st.integers(0, 12), min_size=1, max_size=6, unique=True))
    names = st.sampled_from([None, "a", "b", "c"])
    racks = {node: draw(names) for node in sorted(nodes)}
    others = [20, 21]
    assignments = {}
    for number in range(draw(st.integers(0, 12))):
        replicas = draw(st.lists(st.sampled_from([*nodes, *others]), min_size=1, max_size=4, unique=True))
        assignments[TopicPartition(draw(st.sampled_from("xyz")), number)] = tuple(replicas)
    return assignments, racks


@st.composite
def sizes(draw: st.DrawFn, assignments: Assignments) -> dict[TopicPartition, int] | None:
    if draw(st.booleans()):
        return None
    return {it: draw(st.integers(0, 1000)) for it in assignments}


@given(cluster=clusters(), data=st.data())
def test_no_partition_loses_a_replica_or_a_rack_and_only_participants_change(
    cluster: tuple[Assignments, dict[int, str | None]], data: st.DataObject
) -> None:
    before, racks = cluster
    moved = balance_partitions(before, racks, data.draw(sizes(before)))

    for partition, after in moved.items():
        was = before[partition]
        assert after != was
        assert len(set(after)) == len(after) == len(was)
        assert set(after) ^ set(was) <= racks.keys()
        assert len({racks.get(node) for node in after}) >= len({racks.get(node) for node in was})


@given(cluster=clusters(), data=st.data())
def test_plan_for_the_result_of_a_plan_is_empty(
    cluster: tuple[Assignments, dict[int, str | None]], data: st.DataObject
) -> None:
    before, racks = cluster
    known = data.draw(sizes(before))
    after = {**before, **balance_partitions(before, racks, known)}

    assert balance_partitions(after, racks, known) == {}


@given(cluster=clusters())
def test_no_single_move_improves_the_balance(cluster: tuple[Assignments, dict[int, str | None]]) -> None:
    before, racks = cluster
    after = {**before, **balance_partitions(before, racks)}

    held = counts(after, racks)
    for nodes in after.values():
        for giver in set(nodes) & racks.keys():
            for taker in racks.keys() - set(nodes):
                moved = [taker if node == giver else node for node in nodes]
                keeps_racks = len({racks.get(it) for it in moved}) >= len({racks.get(it) for it in nodes})
                assert not keeps_racks or held[giver] - held[taker] < 2


@given(cluster=clusters())
def test_partition_is_on_as_many_racks_as_there_are(cluster: tuple[Assignments, dict[int, str | None]]) -> None:
    before, racks = cluster
    before = {it: nodes for it, nodes in before.items() if set(nodes) <= racks.keys()}
    after = {**before, **balance_partitions(before, racks)}

    for nodes in after.values():
        assert len({racks[node] for node in nodes}) == min(len(nodes), len(set(racks.values())))


@given(cluster=clusters())
def test_without_racks_counts_are_balanced_by_the_fewest_copies(
    cluster: tuple[Assignments, dict[int, str | None]],
) -> None:
    before, racks = cluster
    brokers = dict.fromkeys(racks)
    before = {it: nodes for it, nodes in before.items() if set(nodes) <= racks.keys()}
    after = {**before, **balance_partitions(before, brokers)}

    held = counts(after, brokers)
    assert max(held.values()) - min(held.values()) <= 1
    assert copies(before, after) == fewest_copies(counts(before, brokers))


@given(rows=st.lists(st.permutations([0, 1, 2]), max_size=12))
def test_leaders_are_balanced_without_copies_when_all_brokers_have_all_partitions(rows: list[list[int]]) -> None:
    before = of(*rows)
    after = {**before, **balance_partitions(before, dict.fromkeys(range(3)))}

    led = counts({it: nodes[:1] for it, nodes in after.items()}, dict.fromkeys(range(3)))
    assert max(led.values()) - min(led.values()) <= 1
    assert copies(before, after) == 0


def test_leadership_is_transferred_through_other_brokers() -> None:
    before = of((0, 1), (0, 1), (0, 1), (1, 2), topic="t") | of((1, 2), topic="u")
    racks = {0: None, 1: None, 2: None}

    after = {**before, **balance_partitions(before, racks)}

    led = Counter(nodes[0] for nodes in after.values())
    assert max(led.values()) - min(led[node] for node in racks) <= 1


def test_new_brokers_get_replicas_and_others_exchange_none() -> None:
    before = of((0, 1), (1, 2), (2, 0), (0, 1), (1, 2), (2, 0))

    moved = balance_partitions(before, dict.fromkeys([0, 1, 2, 3]))

    after = {**before, **moved}
    assert counts(after, dict.fromkeys([0, 1, 2, 3])) == {0: 3, 1: 3, 2: 3, 3: 3}
    assert copies(before, after) == 3
    assert all(set(after[it]) - set(before[it]) <= {3} for it in before)


def test_bytes_are_balanced_by_swaps_that_keep_counts() -> None:
    before = of((0,), (0,), (1,), (1,))
    known = dict(zip(before, [100, 100, 10, 10], strict=True))

    after = {**before, **balance_partitions(before, dict.fromkeys([0, 1]), known)}

    load = Counter[int]()
    for partition, nodes in after.items():
        load[nodes[0]] += known[partition]
    assert load == {0: 110, 1: 110}
    assert counts(after, dict.fromkeys([0, 1])) == {0: 2, 1: 2}


@pytest.mark.parametrize("nothing", [{}, of((7, 8))], ids=["no-partitions", "nobody-takes-part"])
def test_cluster_without_possible_moves_gets_none(nothing: Assignments) -> None:
    assert balance_partitions(nothing, {}) == {}
    assert balance_partitions(nothing, {0: "a"}) == {}
