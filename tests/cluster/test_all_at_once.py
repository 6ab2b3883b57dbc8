"""All nodes, or a majority, are killed at once, again and again: acknowledged records survive."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

PARTITIONS = 3
ROUNDS = 3


@pytest.mark.parametrize(
    "victims", [pytest.param((1, 2, 3), id="all"), pytest.param((1, 2), id="majority"), pytest.param((2,), id="one")]
)
def test_killed_again_and_again(new_cluster: Callable[..., Any], victims: tuple[int, ...]) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    ledger = cluster.ledger("t", message_timeout_ms="120000")
    ledger.start()
    for _ in range(ROUNDS):
        time.sleep(0.7)
        for node_id in victims:
            cluster.nodes[node_id].kill()
        time.sleep(0.2)
        cluster.start()
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))


def test_node_killed_during_its_start_recovers(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    ledger = cluster.ledger("t")
    ledger.start()
    for _ in range(ROUNDS):
        cluster.nodes[3].kill()
        for pause_s in (0.3, 0.6, 0.9):
            cluster.nodes[3].start()
            time.sleep(pause_s)
            cluster.nodes[3].kill()
        cluster.restart(3)
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))


@pytest.mark.parametrize("victims", [pytest.param((1, 2), id="majority"), pytest.param((1, 2, 3), id="all")])
def test_frozen_again_and_again(new_cluster: Callable[..., Any], victims: tuple[int, ...]) -> None:
    cluster = new_cluster(
        broker_session_timeout_ms="2500", broker_heartbeat_interval_ms="500", replica_lag_time_max_ms="3000"
    )
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    ledger = cluster.ledger("t", message_timeout_ms="120000")
    ledger.start()
    for pause_s in (1, 4, 1):
        time.sleep(0.7)
        for node_id in victims:
            cluster.nodes[node_id].signal(signal.SIGSTOP)
        time.sleep(pause_s)
        for node_id in victims:
            cluster.nodes[node_id].signal(signal.SIGCONT)
        cluster.wait_known()
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
