"""Three real nodes that log in at each other, on the brokers' listener and on the controllers'."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

JAAS = "org.apache.kafka.common.security"
NODE = 'username="node" password="node-secret"'


def properties(nodes: str, controllers: str) -> dict[str, str]:
    """Return the settings of every node: mechanisms of the two listeners, and the node's own credentials."""
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


def logs_of_a_kill(cluster: Any) -> str:
    """Send records while the active controller is killed and restarted; return the logs of all nodes."""
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
    return "".join(node.log_text() for node in cluster.nodes.values())


@pytest.mark.parametrize(
    ("nodes", "controllers", "reauth_ms"),
    [
        pytest.param("PLAIN", "PLAIN", "0", id="plain"),
        pytest.param("SCRAM-SHA-512", "SCRAM-SHA-256", "0", id="scram"),
        pytest.param("SCRAM-SHA-256", "PLAIN", "1200", id="renewed-every-second"),
    ],
)
def test_nodes_authenticate_at_each_other(
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
    logs = logs_of_a_kill(cluster)

    assert "node-secret" not in logs
    assert "cannot log in" not in logs
    assert "was not renewed" not in logs
    assert [cluster.nodes[node_id].stop() for node_id in (1, 2, 3)] == [0, 0, 0]


class Issuer:
    """Signs the nodes' tokens; keys and token are files, as an administrator provides them."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.token, keys = folder / "token.jwt", folder / "keys.json"
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        keys.write_text(json.dumps({"keys": [{**public, "kid": "1", "alg": "ES256", "use": "sig"}]}))
        self.properties = {
            **properties("OAUTHBEARER", "OAUTHBEARER"),
            "sasl.enabled.mechanisms": "OAUTHBEARER,PLAIN",
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.token.endpoint.url": self.token.as_uri(),
            "sasl.oauthbearer.expected.audience": "ottla",
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{keys.as_uri()},{self.token.as_uri()}",
        }

    def renew(self, *, seconds: int) -> None:
        now_s = int(time.time())
        claims = {"sub": "node", "aud": "ottla", "iat": now_s, "exp": now_s + seconds}
        following = self.token.with_suffix(".new")
        following.write_text(jwt.encode(claims, self._key, "ES256", {"kid": "1"}))
        following.replace(self.token)


def test_nodes_authenticate_at_each_other_with_a_renewed_token(new_cluster: Callable[..., Any], tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    issuer.renew(seconds=30)
    cluster = new_cluster(
        client={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "node",
            "sasl.password": "node-secret",
        },
        connections_max_reauth_ms="1200",
        **issuer.properties,
    )
    cluster.start()
    first = issuer.token.read_text()
    issuer.renew(seconds=3_600)
    logs = logs_of_a_kill(cluster)

    assert first not in logs
    assert issuer.token.read_text() not in logs
    assert "was not renewed" not in logs
    assert [cluster.nodes[node_id].stop() for node_id in (1, 2, 3)] == [0, 0, 0]
