"""Real processes under a real producer: killed, frozen and rolled, nothing acknowledged is lost or doubled."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

PARTITIONS = 6


@pytest.fixture(params=[3, 5], ids=["three-nodes", "five-nodes"])
def cluster(new_cluster: Callable[..., Any], request: pytest.FixtureRequest) -> Any:
    """Three combined nodes, and further brokers up to the given number; a topic with leaders on all brokers."""
    made = new_cluster(*["broker,controller"] * 3, *["broker"] * (request.param - 3))
    made.start()
    made.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    return made


def test_nodes_are_killed_one_after_the_other(cluster: Any) -> None:
    ledger = cluster.ledger("t")
    ledger.start()
    for node_id, node in cluster.nodes.items():
        time.sleep(0.5)
        node.kill()
        time.sleep(0.5)
        cluster.restart(node_id)
        cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))


def test_roll_fails_no_request(cluster: Any) -> None:
    ledger = cluster.ledger("t")
    ledger.start()
    active = cluster.active_controller()
    for node_id in [*(each for each in cluster.nodes if each != active), active]:
        assert cluster.nodes[node_id].stop() == 0
        cluster.restart(node_id)
        cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
def test_hung_node_is_replaced_and_returns(new_cluster: Callable[..., Any], is_controller: bool) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
    active = cluster.active_controller()
    victim = active if is_controller else next(each for each in cluster.nodes if each != active)
    ledger = cluster.ledger("t")
    ledger.start()
    time.sleep(0.5)
    cluster.nodes[victim].signal(signal.SIGSTOP)
    time.sleep(8)
    cluster.nodes[victim].signal(signal.SIGCONT)
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
    log = "".join(node.log_text() for node in cluster.nodes.values())
    assert f"fencing broker {victim}: it hangs" in log
    assert log.count("fencing broker") == 1
