"""Three real nodes that log in at each other, on the brokers' listener and on the controllers'."""

from collections.abc import Callable
from typing import Any

import pytest

JAAS = "org.apache.kafka.common.security"
NODE = 'username="node" password="node-secret"'


def properties(nodes: str, controllers: str) -> dict[str, str]:
    """Return what every node has: mechanisms of the two listeners, and the node's own login."""
    module = {"PLAIN": f"{JAAS}.plain.PlainLoginModule", "SCRAM": f"{JAAS}.scram.ScramLoginModule"}
    said = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": nodes,
        "sasl.mechanism.controller.protocol": controllers,
    }
    for listener in ("plaintext", "controller"):
        prefix = f"listener.name.{listener}"
        said[f"{prefix}.plain.sasl.jaas.config"] = f'{module["PLAIN"]} required {NODE} user_node="node-secret";'
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            said[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{module['SCRAM']} required {NODE};"
    return said


@pytest.mark.parametrize(
    ("nodes", "controllers", "reauth_ms"),
    [
        pytest.param("PLAIN", "PLAIN", "0", id="plain"),
        pytest.param("SCRAM-SHA-512", "SCRAM-SHA-256", "0", id="scram"),
        pytest.param("SCRAM-SHA-256", "PLAIN", "1200", id="renewed-every-second"),
    ],
)
def test_nodes_log_in_at_each_other(
    new_cluster: Callable[..., Any], nodes: str, controllers: str, reauth_ms: str
) -> None:
    cluster = new_cluster(
        scram=tuple(f"{name}=[name=node,password=node-secret]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")),
        client={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "node",
            "sasl.password": "node-secret",
        },
        connections_max_reauth_ms=reauth_ms,
        **properties(nodes, controllers),
    )
    cluster.start()
    cluster.create_topic("t", partitions=3)
    ledger = cluster.ledger("t")
    ledger.start()
    ledger.send(300)
    victim = cluster.active_controller()
    cluster.nodes[victim].kill()
    cluster.restart(victim)
    cluster.wait_in_sync("t")
    ledger.stop()

    ledger.check(cluster.read_all("t", 3))
    logs = "".join(node.log_text() for node in cluster.nodes.values())
    assert "node-secret" not in logs
    assert "cannot log in" not in logs
    assert "was not renewed" not in logs
    assert [cluster.nodes[node_id].stop() for node_id in (1, 2, 3)] == [0, 0, 0]
