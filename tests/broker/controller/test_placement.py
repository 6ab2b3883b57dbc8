"""Replicas are spread evenly over brokers and racks, for every random seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller.placement import UsableBroker, place
from ottla.errors import ErrorCode, KafkaError
from ottla.simulator.world.random_source import SeededRandom


def brokers(count: int, rack_count: int = 0, fenced: tuple[int, ...] = ()) -> list[UsableBroker]:
    return [
        UsableBroker(number, f"rack-{number % rack_count}" if rack_count else None, number in fenced)
        for number in range(1, count + 1)
    ]


@given(
    broker_count=st.integers(1, 9),
    rounds=st.integers(1, 4),
    replication_factor=st.integers(1, 5),
    seed=st.integers(0, 1_000),
)
def test_leaders_and_replicas_are_spread_evenly_over_brokers(
    broker_count: int, rounds: int, replication_factor: int, seed: int
) -> None:
    replication_factor = min(replication_factor, broker_count)

    placements = place(
        brokers=brokers(broker_count),
        partition_count=broker_count * rounds,
        replication_factor=replication_factor,
        random=SeededRandom(seed),
    )

    assert Counter(replicas[0] for replicas in placements) == dict.fromkeys(range(1, broker_count + 1), rounds)
    assert all(len(set(replicas)) == replication_factor for replicas in placements)


@given(rack_count=st.integers(2, 4), per_rack=st.integers(1, 3), partitions=st.integers(1, 30), seed=st.integers(0, 99))
def test_replicas_of_a_partition_are_in_different_racks(
    rack_count: int, per_rack: int, partitions: int, seed: int
) -> None:
    usable = brokers(rack_count * per_rack, rack_count)
    rack_of = {broker.broker_id: broker.rack for broker in usable}

    placements = place(
        brokers=usable, partition_count=partitions, replication_factor=rack_count, random=SeededRandom(seed)
    )

    assert all(len({rack_of[replica] for replica in replicas}) == rack_count for replicas in placements)


@given(partitions=st.integers(1, 30), seed=st.integers(0, 99))
def test_fenced_brokers_never_lead_and_come_last(partitions: int, seed: int) -> None:
    usable = brokers(5, fenced=(2, 4))

    placements = place(brokers=usable, partition_count=partitions, replication_factor=3, random=SeededRandom(seed))

    assert all({2, 4}.isdisjoint(replicas) for replicas in placements)


def test_fenced_brokers_are_used_if_there_are_too_few_others() -> None:
    placements = place(brokers=brokers(3, fenced=(2,)), partition_count=6, replication_factor=3, random=SeededRandom(1))

    assert all(sorted(replicas) == [1, 2, 3] and replicas[0] != 2 for replicas in placements)


def test_single_broker_gets_any_number_of_partitions() -> None:
    placements = place(brokers=brokers(1), partition_count=5_000, replication_factor=1, random=SeededRandom(1))

    assert placements == [[1]] * 5_000


@pytest.mark.parametrize(
    ("usable", "message"),
    [
        pytest.param(brokers(2), "The target replication factor of 3 cannot be reached because only 2", id="too-few"),
        pytest.param(brokers(3, fenced=(1, 2, 3)), "All brokers are currently fenced", id="all-fenced"),
    ],
)
def test_impossible_placement_is_rejected(usable: list[UsableBroker], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        place(brokers=usable, partition_count=1, replication_factor=3, random=SeededRandom(1))

    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    rack_count=st.integers(1, 3),
    per_rack=st.integers(2, 3),
    partitions=st.integers(1, 30),
    extra=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_with_fewer_racks_than_replicas_each_rack_gets_its_share(
    rack_count: int, per_rack: int, partitions: int, extra: int, seed: int
) -> None:
    usable = brokers(rack_count * per_rack, rack_count)
    rack_of = {broker.broker_id: broker.rack for broker in usable}
    replication_factor = min(rack_count + extra, len(usable))

    placements = place(
        brokers=usable, partition_count=partitions, replication_factor=replication_factor, random=SeededRandom(seed)
    )

    for replicas in placements:
        shares = Counter(rack_of[replica] for replica in replicas)
        assert len(set(replicas)) == replication_factor
        assert max(shares.values()) - min(shares.get(rack, 0) for rack in rack_of.values()) <= 1


def test_leaders_are_even_over_many_small_topics() -> None:
    random = SeededRandom(7)

    leaders = Counter(
        place(brokers=brokers(3, 3), partition_count=1, replication_factor=3, random=random)[0][0] for _ in range(600)
    )

    assert all(150 <= count <= 250 for count in leaders.values())
    assert set(leaders) == {1, 2, 3}
