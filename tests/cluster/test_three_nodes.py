"""Three real processes: a cluster forms, replicates, and loses nothing that it acknowledged when one is killed."""

import time
from collections.abc import Callable
from typing import Any

import pytest


def test_cluster_forms_and_replicates(new_cluster: Callable[..., Any]) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=3)
    ledger = cluster.ledger("t")
    ledger.send(300)
    ledger.stop()

    assert cluster.in_sync("t") == [[1, 2, 3]] * 3
    assert sorted(cluster.leaders("t").values()) == [1, 2, 3]
    assert sorted(cluster.read_all("t", 3)) == list(range(300))
    assert [cluster.nodes[node_id].stop() for node_id in (1, 2, 3)] == [0, 0, 0]


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
def test_nothing_is_lost_or_doubled_when_a_node_is_killed(new_cluster: Callable[..., Any], is_controller: bool) -> None:
    cluster = new_cluster()
    cluster.start()
    cluster.create_topic("t", partitions=3, min_insync_replicas="2")
    controller = cluster.active_controller()
    victim = controller if is_controller else next(each for each in cluster.nodes if each != controller)
    ledger = cluster.ledger("t")
    ledger.start()
    time.sleep(1)
    cluster.nodes[victim].kill()
    time.sleep(1)
    cluster.restart(victim)
    time.sleep(1)
    ledger.stop()

    ledger.check(cluster.read_all("t", 3))


@pytest.mark.parametrize(
    ("roles", "static_voters"),
    [
        pytest.param(("broker,controller",) * 3, True, id="voters-by-configuration"),
        pytest.param(("controller",) * 3 + ("broker",) * 3, False, id="controllers-apart"),
        pytest.param(("broker,controller",) * 3 + ("broker",) * 2, False, id="three-and-two"),
    ],
)
def test_cluster_of_another_shape_works(
    new_cluster: Callable[..., Any], roles: tuple[str, ...], static_voters: bool
) -> None:
    cluster = new_cluster(*roles, static_voters=static_voters)
    cluster.start()
    cluster.create_topic("t", partitions=6)
    ledger = cluster.ledger("t")
    ledger.send(300)
    ledger.stop()

    assert sorted(cluster.read_all("t", 6)) == list(range(300))
