"""Real nodes that reach each other over TLS only, each showing its certificate, on both of their listeners."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
LOGIN = f'{JAAS} username="node" password="node-secret" user_node="node-secret";'


def properties(folder: Path, protocol: str) -> dict[str, str]:
    """Return the settings of every node; ``folder`` has their files."""
    said = {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:{protocol}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.plaintext.ssl.client.auth": "required",
    }
    if protocol == "SASL_SSL":
        said |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": LOGIN,
            "listener.name.controller.plain.sasl.jaas.config": LOGIN,
        }
    return said


def client(folder: Path, protocol: str) -> dict[str, str]:
    said = {
        "security.protocol": protocol,
        "ssl.ca.location": str(folder / "ca.pem"),
        "ssl.certificate.location": str(folder / "client.pem"),
        "ssl.key.location": str(folder / "client.pem"),
    }
    if protocol == "SASL_SSL":
        said |= {"sasl.mechanism": "PLAIN", "sasl.username": "node", "sasl.password": "node-secret"}
    return said


def put(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


@pytest.mark.parametrize(
    ("protocol", "roles"),
    [
        pytest.param("SSL", (), id="tls"),
        pytest.param("SASL_SSL", (), id="tls-and-logins"),
        pytest.param("SSL", ("controller", "broker", "broker", "broker"), id="a-controller-of-its-own"),
    ],
)
def test_nodes_replicate_over_tls_and_a_killed_one_rejoins(
    new_cluster: Callable[..., Any], tmp_path: Path, authority: Any, protocol: str, roles: tuple[str, ...]
) -> None:
    (tmp_path / "node.pem").write_text(authority.issue("CN=node").both)
    (tmp_path / "client.pem").write_text(authority.issue("CN=client").both)
    (tmp_path / "ca.pem").write_text(authority.pem)
    cluster = new_cluster(*roles, client=client(tmp_path, protocol), **properties(tmp_path, protocol))
    cluster.start()
    cluster.create_topic("t", partitions=3)
    ledger = cluster.ledger("t")
    ledger.start()
    ledger.send(300)
    # One of the three partitions is led there.
    cluster.nodes[3].kill()
    cluster.restart(3)
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", 3))
    logs = "".join(node.log_text() for node in cluster.nodes.values())
    assert "PRIVATE KEY" not in logs
    assert [node.stop() for node in cluster.nodes.values()] == [0] * len(cluster.nodes)


def test_certificates_of_all_nodes_change_under_load_without_errors(
    new_cluster: Callable[..., Any], tmp_path: Path, authority: Any
) -> None:
    (tmp_path / "node.pem").write_text(authority.issue("CN=node").both)
    (tmp_path / "client.pem").write_text(authority.issue("CN=client").both)
    (tmp_path / "ca.pem").write_text(authority.pem)
    cluster = new_cluster(client=client(tmp_path, "SSL"), **properties(tmp_path, "SSL"))
    cluster.start()
    cluster.create_topic("t", partitions=3)
    ledger = cluster.ledger("t")
    ledger.start()
    # The clients that checked the start of the nodes have disconnected, some of them during a handshake.
    deadline = time.monotonic() + 30
    while len(ledger.acknowledged) < 100:
        assert time.monotonic() < deadline, "the ledger's records are not acknowledged"
        time.sleep(0.02)
    done = threading.Event()
    threading.Timer(3, done.set).start()
    before = {node_id: len(node.log_text()) for node_id, node in cluster.nodes.items()}
    put(tmp_path / "node.pem", authority.issue("CN=node").both)
    for node in cluster.nodes.values():
        cluster.wait_line(node, "listener CONTROLLER has new certificates")
        cluster.wait_line(node, "listener PLAINTEXT has new certificates")
    done.wait(30)
    ledger.stop()

    ledger.check(cluster.read_all("t", 3))
    said = "".join(node.log_text()[before[node_id] :] for node_id, node in cluster.nodes.items())
    assert "WARNING" not in said
    assert "ERROR" not in said
    assert cluster.in_sync("t") == [[1, 2, 3]] * 3
