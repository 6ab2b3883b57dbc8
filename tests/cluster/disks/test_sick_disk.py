"""Disks that are slow, full, read-only or broken: their node disconnects or ends, and the others go on."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks import file_systems
from sick_disks import started_on_file_systems

PARTITIONS = 6
SICK_S = 4
SLOW_S = 2.0
"""Longer than ottla.loop.stall.disconnect.ms."""


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Iterator[Any]:
    made = new_cluster()
    with started_on_file_systems(made, "t", PARTITIONS):
        yield made


@contextmanager
def slow(node: Any) -> Iterator[None]:
    with file_systems.slow(node.directory / "data", SLOW_S):
        yield


@contextmanager
def full(node: Any) -> Iterator[None]:
    with file_systems.full(node.directory / "data"):
        yield
        assert node.wait() == 1


def failed(make_sick: Callable[[Path], None]) -> Callable[[Any], AbstractContextManager[None]]:
    @contextmanager
    def fault(node: Any) -> Iterator[None]:
        make_sick(node.directory / "data")
        yield
        assert node.wait() == 1
        file_systems.repair(node.directory / "data")

    return fault


SICK: list[tuple[Callable[[Any], AbstractContextManager[None]], str]] = [
    (slow, "shut down the listeners"),
    (full, "[Errno 28] No space left on device"),
    (failed(file_systems.make_read_only), "[Errno 30] Read-only file system"),
    (failed(file_systems.fail), "[Errno 5] Input/output error"),
]
"""Faults, and what the node logs."""


def test_other_nodes_lead_while_a_disk_is_sick_and_nothing_is_lost(cluster: Any) -> None:
    ledger = cluster.ledger("t")
    ledger.start()
    for number, (fault, logged) in enumerate(SICK):
        victim = number % 3 + 1
        node = cluster.nodes[victim]
        cluster.spread_leaders("t", via=victim)
        mark = len(node.log_text())
        with fault(node):
            cluster.wait_line(node, logged, mark)
            time.sleep(SICK_S)
            leaders = cluster.leaders("t").values()
            assert victim not in leaders, logged
            assert -1 not in leaders, logged
        if not node.is_running:
            cluster.restart(victim)
        cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
