"""Replication throttles: a rate over a window, for the named replicas only, and never for in-sync replicas."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.replication.config import ReplicationConfig
from ottla.replication.quota import ReplicationQuota
from ottla.types import TopicPartition


@pytest.fixture
def quota() -> ReplicationQuota:
    throttle_quota = ReplicationQuota(window_count=11, window_size_seconds=1)
    throttle_quota.rate = 1_000
    throttle_quota.throttle("t", "*", 1)
    return throttle_quota


@pytest.mark.parametrize(("size_bytes", "is_exceeded"), [(1_000, False), (1_001, True)])
def test_first_second_allows_the_bytes_of_one_second(
    quota: ReplicationQuota, size_bytes: int, is_exceeded: bool
) -> None:
    quota.record(size_bytes, 0)

    assert quota.is_exceeded(0) is is_exceeded


def test_burst_is_compensated_over_time(quota: ReplicationQuota) -> None:
    quota.record(5_000, 0)

    assert quota.is_exceeded(4_999)
    assert not quota.is_exceeded(5_000)


def test_samples_leave_the_window(quota: ReplicationQuota) -> None:
    quota.record(50_000, 0)

    assert quota.is_exceeded(10_999)
    assert not quota.is_exceeded(11_000)


@pytest.mark.parametrize(
    ("replicas", "partition", "is_throttled"),
    [
        pytest.param("*", 7, True, id="all"),
        pytest.param("0:1,3:1,4:2", 3, True, id="named"),
        pytest.param("0:1,3:1,4:2", 4, False, id="named-for-another-broker"),
        pytest.param("0:1", 3, False, id="not-named"),
        pytest.param("", 3, False, id="none"),
    ],
)
def test_only_the_named_replicas_are_throttled(replicas: str, partition: int, is_throttled: bool) -> None:
    quota = ReplicationQuota()
    quota.throttle("t", replicas, 1)

    assert quota.is_throttled(TopicPartition("t", partition)) is is_throttled


def test_without_a_rate_nothing_is_limited(quota: ReplicationQuota) -> None:
    quota.rate = (1 << 63) - 1

    assert not quota.is_limited


def fill_and_add_a_replica(new_cluster: Callable[..., Any], key: str, **rates: int) -> Any:
    """200 KB on node 1; node 2 is to copy them at 20 KB/s, in steps of 10 KB."""
    cluster = new_cluster(
        2, replication=ReplicationConfig(fetch_max_bytes=10_000, fetch_response_max_bytes=10_000, **rates)
    )
    cluster.controller.create_topic("t", (1,))
    cluster.controller.configure("t", key, "*")
    cluster.settle()
    for _ in range(100):
        cluster[1].produce(b"x" * 1_940)
    cluster.controller.change(replicas=[1, 2], adding_replicas=[2])
    return cluster


@pytest.mark.parametrize(
    ("key", "rate"),
    [
        pytest.param("leader.replication.throttled.replicas", "leader_throttled_rate", id="leader"),
        pytest.param("follower.replication.throttled.replicas", "follower_throttled_rate", id="follower"),
    ],
)
def test_added_replica_copies_at_the_throttled_rate(new_cluster: Callable[..., Any], key: str, rate: str) -> None:
    cluster = fill_and_add_a_replica(new_cluster, key, **{rate: 20_000})
    cluster.run(5_000)
    after_5_s = cluster[2].partition().log.size_bytes
    cluster.run(10_000)

    assert 80_000 <= after_5_s <= 130_000
    assert cluster[2].log_bytes() == cluster[1].log_bytes()
    assert cluster.controller.partition().isr == (1, 2)


def test_in_sync_replica_is_not_throttled(new_cluster: Callable[..., Any]) -> None:
    cluster = fill_and_add_a_replica(
        new_cluster, "follower.replication.throttled.replicas", follower_throttled_rate=20_000
    )
    cluster.run(20_000)
    responses = [cluster[1].produce(b"x" * 1_940) for _ in range(30)]
    cluster.settle()

    assert all(response and response[0].error_code == 0 for response in responses)


def test_unthrottled_topic_is_replicated_at_once(new_cluster: Callable[..., Any]) -> None:
    cluster = fill_and_add_a_replica(
        new_cluster, "follower.replication.throttled.replicas", follower_throttled_rate=20_000
    )
    cluster.controller.configure("t", "follower.replication.throttled.replicas", None)
    cluster.settle()

    assert cluster[2].log_bytes() == cluster[1].log_bytes()


def test_new_rate_applies_at_once(new_cluster: Callable[..., Any]) -> None:
    cluster = fill_and_add_a_replica(new_cluster, "leader.replication.throttled.replicas", leader_throttled_rate=1)
    cluster.run(2_000)
    stalled = cluster[2].partition().log.size_bytes
    cluster[1].replicas.update_config(ReplicationConfig(leader_throttled_rate=1 << 40))
    cluster.run(1_000)

    assert stalled <= 20_000
    assert cluster[2].log_bytes() == cluster[1].log_bytes()
