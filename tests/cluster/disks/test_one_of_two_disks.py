"""One of a node's two log directories is sick: the node keeps the other, unless the sick disk does not respond."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from benchmarks import file_systems
from sick_disks import started_on_file_systems

PARTITIONS = 6
SICK_S = 3
SECOND = "more"
"""The directory with a file system of its own; the metadata is in the first one."""


@pytest.fixture
def cluster(new_cluster: Callable[..., Any]) -> Iterator[Any]:
    made = new_cluster(log_dirs=f"{{home}}/data,{{home}}/{SECOND}")
    with started_on_file_systems(made, "t", PARTITIONS, SECOND):
        yield made


def partitions_in(directory: Path) -> set[int]:
    return {int(each.name.removeprefix("t-")) for each in directory.glob("t-*")}


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    file_systems.make_read_only(directory)
    yield
    file_systems.repair(directory)


@contextmanager
def failing(directory: Path) -> Iterator[None]:
    file_systems.fail(directory)
    yield
    file_systems.repair(directory)


FAULTS: list[tuple[Callable[[Path], AbstractContextManager[None]], str]] = [
    (file_systems.full, "[Errno 28] No space left on device"),
    (read_only, "[Errno 30] Read-only file system"),
    (failing, "[Errno 5] Input/output error"),
]
"""Faults, and what the node logs."""


def test_failed_directory_is_given_up_and_the_other_still_leads(cluster: Any) -> None:
    ledger = cluster.ledger("t")
    ledger.start()
    for number, (fault, logged) in enumerate(FAULTS):
        victim = number % 3 + 1
        node = cluster.nodes[victim]
        led = {partition for partition, leader in cluster.spread_leaders("t", via=victim).items() if leader == victim}
        still_leads = led & partitions_in(node.directory / "data")
        assert still_leads < led, "it leads a partition in the second directory"
        mark = len(node.log_text())
        with fault(node.directory / SECOND):
            cluster.wait_line(node, logged, mark)
            time.sleep(SICK_S)
            leaders = cluster.leaders("t")
            assert {partition for partition, leader in leaders.items() if leader == victim} == still_leads, logged
            assert -1 not in leaders.values(), logged
            in_sync = {partition for partition, isr in enumerate(cluster.in_sync("t")) if victim in isr}
            assert in_sync == partitions_in(node.directory / "data"), logged
            node.stop()
        cluster.restart(victim)
        cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))


def test_frozen_directory_stalls_its_node_and_no_other(cluster: Any) -> None:
    """Appends are not moved off the loop, so that the healthy directory waits as well: decision 13."""
    victim = 2
    node = cluster.nodes[victim]
    ledger = cluster.ledger("t")
    ledger.start()
    cluster.spread_leaders("t", via=victim)
    with file_systems.frozen(node.directory / SECOND):
        cluster.wait_line(node, "shut down the listeners")
        time.sleep(SICK_S)
        assert set(cluster.leaders("t").values()) == {1, 3}
    cluster.wait_line(node, "listening again")
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", PARTITIONS))
