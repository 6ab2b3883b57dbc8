"""Periodic elections: when they are due, how many at a time, and when there are none."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.config.resource_type import ConfigResourceType
from ottla.controller import periodic_elections
from ottla.wire.messages.metadata_log import PartitionChangeRecord

BALANCE_MS, UNCLEAN_MS = 3_000, 2_000


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """Ten partitions that 1 should lead and 2 does."""
    cluster = new_cluster(
        1,
        2,
        leader_imbalance_check_interval_ms=BALANCE_MS,
        unclean_election_interval_ms=UNCLEAN_MS,
        session_timeout_ms=1_000_000,
        features={"eligible.leader.replicas.version": 0},
    )
    cluster.assign("t", *([1, 2] for _ in range(10)))
    cluster.fence(1)
    cluster.unfence(1)
    for partition in range(10):
        cluster.alter_partition("t", [2, 1], partition)
    return cluster


def leaders(cluster: Any) -> list[int]:
    return [cluster.partition("t", number).leader for number in range(10)]


def test_preferred_leaders_are_elected_when_the_check_is_due(cluster: Any) -> None:
    cluster.wait(BALANCE_MS - 1)
    early = leaders(cluster)
    cluster.wait(1)

    assert (early, leaders(cluster)) == ([2] * 10, [1] * 10)
    assert cluster.active.metrics().preferred_replica_imbalance == 0


def test_no_preferred_election_without_auto_leader_rebalance(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster(
        1, 2, leader_rebalance_enable=False, leader_imbalance_check_interval_ms=BALANCE_MS, session_timeout_ms=10**9
    )
    cluster.assign("t", [1, 2])
    cluster.fence(1)
    cluster.unfence(1)
    cluster.alter_partition("t", [2, 1])

    cluster.wait(10 * BALANCE_MS)

    assert cluster.partition("t").leader == 2


def test_elections_per_round_are_bounded_and_the_next_round_is_due_at_once(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_elections, "ELECTIONS_MAX", 4)
    moved = []

    cluster.wait(UNCLEAN_MS)
    cluster.wait(BALANCE_MS - UNCLEAN_MS)
    for _ in range(3):
        moved.append(leaders(cluster).count(1))
        assert cluster.active.next_deadline_ms() is not None
        cluster.tick()

    assert moved == [4, 8, 10]


@pytest.mark.parametrize("who", ["topic", "cluster"])
def test_unclean_election_enabled_later_applies_at_once(cluster: Any, who: str) -> None:
    for partition in range(10):
        cluster.alter_partition("t", [2], partition)
    cluster.fence(2)
    assert leaders(cluster) == [-1] * 10
    cluster.wait(UNCLEAN_MS)
    assert leaders(cluster) == [-1] * 10

    resource = (ConfigResourceType.TOPIC, "t") if who == "topic" else (ConfigResourceType.BROKER, "")
    cluster.configure(*resource, "unclean.leader.election.enable", "true")
    before = leaders(cluster)
    assert cluster.active.next_deadline_ms() == cluster.clock.monotonic_ms()
    cluster.tick()

    assert (before, leaders(cluster)) == ([-1] * 10, [1] * 10)
    assert cluster.active.metrics().unclean_leader_elections == 10


def test_round_without_elections_writes_no_records(cluster: Any) -> None:
    cluster.wait(BALANCE_MS)
    before = len(cluster.records)

    cluster.wait(BALANCE_MS)
    cluster.wait(UNCLEAN_MS)

    assert len(cluster.records) == before


def test_fenced_or_lagging_preferred_replica_is_not_elected(cluster: Any) -> None:
    cluster.alter_partition("t", [2], 0)
    cluster.fence(1)
    before = len(cluster.records)

    cluster.wait(BALANCE_MS)

    changes = [each for each in cluster.records[before:] if isinstance(each.message, PartitionChangeRecord)]
    assert changes == []
