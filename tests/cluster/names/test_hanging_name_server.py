"""A name server that hangs: nodes use the addresses that the names had last, elect leaders, and lose nothing."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import named_hosts
import pytest

PARTITIONS = 3
TIMEOUT_S = 30


@pytest.fixture
def hosts(bound: list[str]) -> Iterator[Any]:
    if (missing := named_hosts.missing()) is not None:
        pytest.skip(f"nodes have a name server of their own: needs {missing}")
    with named_hosts.running(bound) as hosts:
        yield hosts


@pytest.fixture
def cluster(hosts: Any, new_cluster: Callable[..., Any], free_port: Callable[[], int]) -> Iterator[Any]:
    """A cluster whose nodes know each other by name; clients connect to addresses, which they need not resolve."""
    made = new_cluster(network=hosts)
    for node in made.nodes.values():
        config = node.config_path.read_text()
        named = f"PLAINTEXT://{node.address}"
        node.host = "127.0.0.1"
        listeners = f"PLAINTEXT://{node.address},REPLICATION://{hosts.address(node.node_id)}:{free_port()}"
        lines = (
            "inter.broker.listener.name=REPLICATION",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
        )
        node.config_path.write_text(config.replace(named, listeners) + "\n".join(lines) + "\n")
    with closing(made):
        made.start()
        made.create_topic("t", partitions=PARTITIONS, min_insync_replicas="2")
        yield made


def wait_replaced(cluster: Any, failed: int) -> None:
    """Wait until librdkafka knows the cluster without a node: it drops a request to one that goes."""
    deadline = time.monotonic() + TIMEOUT_S
    while failed in cluster.admin().list_topics(timeout=30).brokers:
        assert time.monotonic() < deadline, f"node {failed} is not replaced"
        time.sleep(0.05)


def test_others_lead_when_a_node_fails_while_the_name_server_hangs(cluster: Any, hosts: Any) -> None:
    ledger = cluster.ledger("t")
    ledger.start()
    ledger.wait_acknowledged(PARTITIONS)
    failed = cluster.active_controller()

    with hosts.hanging():
        cluster.nodes[failed].kill()
        wait_replaced(cluster, failed)
        cluster.create_topic("made-meanwhile", partitions=PARTITIONS, replicas=2)
        later = cluster.ledger("made-meanwhile")
        later.start()
        later.wait_acknowledged(PARTITIONS)
        leaders = cluster.leaders("t").values()
        later.stop()
        logs = [node.log_text() for node in cluster.nodes.values() if node.node_id != failed]
    cluster.restart(failed)
    cluster.wait_in_sync("t")
    ledger.stop()

    assert failed not in leaders
    assert -1 not in leaders
    assert any("no name server responds" in log for log in logs)
    ledger.check(cluster.read_all("t", PARTITIONS))
    later.check(cluster.read_all("made-meanwhile", PARTITIONS))
