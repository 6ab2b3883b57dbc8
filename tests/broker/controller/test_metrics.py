"""Metrics of the cluster: plain numbers that follow the metadata, on every controller."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    cluster = new_cluster(1, 2, 3, controllers=2)
    cluster.assign("t", [1, 2, 3], [2, 3, 1], **{"min.insync.replicas": "2"})
    cluster.assign("u", [3])
    return cluster


def numbers(cluster: Any, *names: str) -> tuple[int, ...]:
    metrics = asdict(cluster.active.metrics())
    return tuple(metrics[name] for name in names)


def test_metrics_of_a_healthy_cluster(cluster: Any) -> None:
    assert numbers(cluster, "active_brokers", "fenced_brokers", "topics", "partitions") == (3, 0, 2, 3)
    assert numbers(cluster, "offline_partitions", "preferred_replica_imbalance", "offline_replicas") == (0, 0, 0)
    assert numbers(cluster, "under_replicated_partitions", "under_min_isr_partitions") == (0, 0)
    assert cluster.active.metrics().broker_registration_states == {1: 30, 2: 30, 3: 30}


def test_metrics_count_each_failed_broker(cluster: Any) -> None:
    cluster.fence(3)

    assert numbers(cluster, "active_brokers", "fenced_brokers", "offline_replicas") == (2, 1, 3)
    assert numbers(cluster, "offline_partitions", "preferred_replica_imbalance") == (1, 1)
    assert numbers(cluster, "under_replicated_partitions", "under_min_isr_partitions") == (3, 1)

    cluster.fence(2)

    assert numbers(cluster, "under_min_isr_partitions", "offline_partitions") == (3, 1)
    assert cluster.active.metrics().broker_registration_states == {1: 30, 2: 10, 3: 10}


def test_replicas_in_offline_directories_count_as_offline(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    cluster.add_brokers(1, 2, directories=2)
    cluster.assign("t", [1, 2], [2, 1])
    failed, online = cluster.broker_of(1).directories

    cluster.put("t", 1, online)
    cluster.ask(cluster.heartbeat(1, offline_log_dirs=[failed]))
    spared = numbers(cluster, "offline_replicas")
    cluster.put("t", 1, failed)

    assert (spared, numbers(cluster, "offline_replicas")) == ((0,), (1,))


def test_broker_in_controlled_shutdown_is_counted(cluster: Any) -> None:
    cluster.ask(cluster.heartbeat(1, want_shut_down=True))

    assert numbers(cluster, "active_brokers", "controlled_shutdown_brokers", "fenced_brokers") == (3, 1, 0)
    assert cluster.active.metrics().broker_registration_states[1] == 20


def test_reassignment_under_way_is_counted(cluster: Any) -> None:
    cluster.reassign("u", [1, 2])
    started = numbers(cluster, "reassigning_partitions", "new_replicas", "online_replicas")
    cluster.alter_partition("u", [3, 1])
    half = numbers(cluster, "reassigning_partitions", "new_replicas", "online_replicas")
    cluster.alter_partition("u", [3, 1, 2])
    done = numbers(cluster, "reassigning_partitions", "new_replicas", "online_replicas")

    assert (started, half, done) == ((1, 2, 7), (1, 1, 8), (0, 0, 8))


def test_elections_are_counted_by_kind(cluster: Any) -> None:
    cluster.fence(2)
    cluster.fence(1)
    cluster.fence(3)
    cluster.unfence(1)
    eligible = numbers(cluster, "elr_leader_elections", "unclean_leader_elections")
    cluster.restart_broker(3, clean=False)

    assert eligible == (2, 0)
    assert numbers(cluster, "elr_leader_elections", "unclean_leader_elections") == (2, 1)


def test_standby_controller_has_the_metrics_of_the_active_one(cluster: Any) -> None:
    cluster.fence(2)

    active, standby = (asdict(cluster.controllers[each].metrics()) for each in (101, 102))

    assert (active.pop("is_active"), standby.pop("is_active")) == (1, 0)
    assert active == standby


def test_deleted_objects_are_not_counted(cluster: Any) -> None:
    cluster.ask(UnregisterBrokerRequest(broker_id=3))

    assert cluster.active.metrics().broker_registration_states == {1: 30, 2: 30}
    assert numbers(cluster, "fenced_brokers", "offline_replicas") == (0, 3)
