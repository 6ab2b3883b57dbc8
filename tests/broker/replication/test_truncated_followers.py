"""A truncated follower appends nothing until its lower recovery point is on stable storage, and syncs on no loop."""

from collections.abc import Callable
from typing import Any

import pytest

ELECTED_MS = 2_000
RETRIED_MS = 100


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Any:
    """Return two brokers; node 1 has just truncated the synced tail of t, and its disk completes no sync."""
    cluster = new_cluster(2)
    cluster.controller.create_topic("t", (1, 2))
    cluster.controller.create_topic("u", (2, 1))
    cluster.settle()
    cluster[1].produce(b"committed")
    cluster.run(600)
    cluster.cut(1, 2)
    cluster[1].produce(b"lost tail 1", acks=1)
    cluster[1].produce(b"lost tail 2", acks=1)
    cluster.stop(1, cleanly=True)
    cluster.controller.change(leader=2, isr=[2])
    cluster.settle()
    cluster[2].produce(b"new")
    cluster.heal()
    cluster.slow_disks.add(1)
    cluster.start(1)
    cluster.run(ELECTED_MS)
    return cluster


def test_truncated_follower_fetches_once_the_recovery_point_is_written(cluster: Any) -> None:
    syncs = cluster[1].disk.operations["sync"]
    cluster.run(RETRIED_MS)
    assert (cluster[1].values(), cluster[1].disk.operations["sync"]) == ([b"committed"], syncs)

    cluster[1].disk.complete_syncs()
    cluster.run(RETRIED_MS)

    assert cluster[1].values() == [b"committed", b"new"]


def test_other_partitions_of_the_fetcher_do_not_wait(cluster: Any) -> None:
    cluster[2].produce(b"other", topic="u")
    cluster.run(RETRIED_MS)

    assert cluster[1].values(topic="u") == [b"other"]


def test_truncated_follower_that_is_elected_writes_the_recovery_point_before_it_appends(cluster: Any) -> None:
    log = cluster[1].partition().log
    assert log.awaited_checkpoint is not None
    cluster.controller.change(leader=1, isr=[1])
    cluster.settle()
    responses = cluster[1].produce(b"of node 1")
    cluster.settle()

    assert [response.error_code for response in responses] == [0]
    assert (cluster[1].values(), log.awaited_checkpoint) == ([b"committed", b"of node 1"], None)
