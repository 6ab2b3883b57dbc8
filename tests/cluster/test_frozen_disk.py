"""A disk that does not respond stops the loop of its node; the node then disconnects, and the others go on."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from benchmarks import file_systems

PARTITIONS = 6
FROZEN_S = 12
"""Longer than broker.session.timeout.ms."""


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Iterator[Any]:
    if (missing := file_systems.missing()) is not None:
        pytest.skip(f"a file system is mounted and frozen: needs {missing}")
    made = new_cluster()
    with ExitStack() as stack:
        for node in made.nodes.values():
            try:
                stack.enter_context(file_systems.mounted(node.directory / "data"))
            except OSError as error:
                pytest.skip(str(error))
        stack.callback(made.close)
        made.start()
        made.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
        yield made


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
def test_node_with_a_frozen_disk_is_replaced_and_returns(cluster: Any, is_controller: bool) -> None:
    active = cluster.active_controller()
    victim = active if is_controller else next(each for each in cluster.nodes if each != active)
    node = cluster.nodes[victim]
    ledger = cluster.ledger("t")
    ledger.start()
    time.sleep(1)
    with file_systems.frozen(node.directory / "data"):
        cluster.wait_line(node, "shut down the listeners")
        time.sleep(FROZEN_S)
        assert victim not in cluster.leaders("t").values()
    cluster.wait_line(node, "listening again")
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
    assert not any("its session timed out" in each.log_text() for each in cluster.nodes.values())
