"""A disk that does not respond stops the loop of its node; the node then disconnects, and the others go on."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from benchmarks import file_systems
from sick_disks import started_on_file_systems

PARTITIONS = 6
FROZEN_S = 12
"""Longer than broker.session.timeout.ms."""


@pytest.fixture
def admin_ports(free_port: Callable[[], int]) -> dict[int, int]:
    """Return the port of the admin pages of each node."""
    return {node_id: free_port() for node_id in (1, 2, 3)}


@pytest.fixture
def cluster(admin_ports: dict[int, int], new_cluster: Callable[..., Any]) -> Iterator[Any]:
    made = new_cluster()
    for node in made.nodes.values():
        with node.config_path.open("a") as config:
            config.write(f"ottla.admin.listener=127.0.0.1:{admin_ports[node.node_id]}\n")
    with started_on_file_systems(made, "t", PARTITIONS):
        yield made


def probe(port: int, path: str) -> tuple[int, str]:
    """Return the status of a page, and the reasons that it has."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, "; ".join(json.loads(response.read()).get("reasons", ()))
    finally:
        connection.close()


@pytest.mark.parametrize("is_controller", [True, False], ids=["active-controller", "other-node"])
def test_node_with_a_frozen_disk_is_replaced_and_returns(
    cluster: Any, admin_ports: dict[int, int], is_controller: bool
) -> None:
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
        alive, ready = probe(admin_ports[victim], "/healthz"), probe(admin_ports[victim], "/readyz")
    cluster.wait_line(node, "listening again")
    cluster.wait_in_sync("t")
    ledger.stop()

    # A restart would wait for the same disk.
    assert alive[0] == 200
    assert alive[1].startswith("the node's event loop has been waiting for a disk for 1")
    assert ready == (503, alive[1])
    assert probe(admin_ports[victim], "/readyz") == (200, "")
    ledger.check(cluster.read_all("t", PARTITIONS))
    assert not any("its session timed out" in each.log_text() for each in cluster.nodes.values())
