"""Secrets in every place that takes one must not appear in any output or file of a node and its tools."""

import asyncio
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.security import ClientSecurity
from ottla.config.resource_type import ConfigResourceType

PLAIN_PASSWORD = "planted-plain-password"
NODE_PASSWORD = "planted-node-password"
SCRAM_PASSWORD = "planted-scram-password"
WRONG_PASSWORD = "planted-wrong-password"
KEY_PASSWORD = "planted-key-password"
DYNAMIC_PASSWORD = "planted-dynamic-password"
MODULE = "org.apache.kafka.common.security"


class Guarded:
    """A node with a password in every place that takes one, and its collected output."""

    def __init__(
        self, run_node: Callable[..., Any], free_port: Callable[[], int], authority: Any, folder: Path
    ) -> None:
        self.folder = folder
        self.port, self.http_port, quorum = free_port(), free_port(), free_port()
        key = authority.issue(password=KEY_PASSWORD)
        self.key_lines = [line for line in key.key.splitlines() if line and "-----" not in line]
        self.heard: dict[str, str] = {}
        (folder / "ca.pem").write_text(authority.pem)
        self.node = run_node(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "listeners": f"CLIENTS://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{quorum}",
                "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "CLIENTS",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{quorum}",
                "ottla.admin.listener": f"127.0.0.1:{self.http_port}",
                "offsets.topic.replication.factor": "1",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.clients.plain.sasl.jaas.config": f"{MODULE}.plain.PlainLoginModule required "
                f'username="node" password="{NODE_PASSWORD}" user_node="{NODE_PASSWORD}" '
                f'user_alice="{PLAIN_PASSWORD}";',
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": key.key.replace("\n", " "),
                "ssl.keystore.certificate.chain": key.chain.replace("\n", " "),
                "ssl.key.password": KEY_PASSWORD,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(folder / "ca.pem"),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:node;User:alice;User:ANONYMOUS",
            },
            log_level="debug",
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def properties(self, user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULE}.{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }

    def command_config(self, *said: str) -> str:
        path = self.folder / f"client-{len(self.heard)}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in self.properties(*said).items()))
        return str(path)

    def collect(self, what: str, text: str) -> None:
        self.heard[f"{len(self.heard)} {what}"] = text


@pytest.fixture
def guarded(run_node: Callable[..., Any], free_port: Callable[[], int], authority: Any, tmp_path: Path) -> Guarded:
    return Guarded(run_node, free_port, authority, tmp_path)


async def describe(guarded: Guarded) -> str:
    """Change a password while the node runs, and return every configuration that it describes."""
    security = ClientSecurity.from_properties(guarded.properties("alice", PLAIN_PASSWORD))
    async with AdminClient(guarded.address, security=security) as admin:
        jaas = f'{MODULE}.plain.PlainLoginModule required user_alice="{DYNAMIC_PASSWORD}";'
        key = "listener.name.other.plain.sasl.jaas.config"
        await admin.alter_configs(ConfigResourceType.BROKER, "1", upserts={key: jaas})
        entries = await admin.describe_configs(ConfigResourceType.BROKER, "1", documentation=True)
        entries += await admin.describe_configs(ConfigResourceType.BROKER, "")
        return f"{security!r} {security} {entries!r}"


def test_no_secret_is_printed_or_written_anywhere(guarded: Guarded, run: Any) -> None:
    good = guarded.command_config("alice", PLAIN_PASSWORD)
    at = ("-b", guarded.address, "--command-config")

    def say(*arguments: str, config: str = good, stdin: bytes = b"") -> int:
        ran = run(*arguments, *at, config, stdin=stdin)
        guarded.collect(" ".join(arguments[:2]), ran.out + ran.err)
        return int(ran.code)

    assert say("topic", "list") == 0
    assert say("user", "add", "bob", "--password-stdin", stdin=SCRAM_PASSWORD.encode() + b"\n") == 0
    assert say("topic", "list", config=guarded.command_config("bob", SCRAM_PASSWORD, "SCRAM-SHA-512")) == 0
    for user, mechanism in (("alice", "PLAIN"), ("bob", "SCRAM-SHA-512"), ("nobody", "SCRAM-SHA-512")):
        assert say("topic", "list", config=guarded.command_config(user, WRONG_PASSWORD, mechanism)) != 0
    assert say("user", "list", "-o", "json") == 0
    assert say("doctor") == 0
    say("doctor", config=guarded.command_config("alice", WRONG_PASSWORD))
    guarded.collect("configurations", asyncio.run(describe(guarded)))
    with urllib.request.urlopen(f"http://127.0.0.1:{guarded.http_port}/metrics", timeout=10) as page:
        guarded.collect("metrics", page.read().decode())
    guarded.node.stop()
    guarded.collect("log", guarded.node.log_text())
    for path in (guarded.node.folder / "data").rglob("*"):
        if path.is_file():
            guarded.collect(str(path), path.read_bytes().decode("latin-1"))

    planted = [PLAIN_PASSWORD, NODE_PASSWORD, SCRAM_PASSWORD, WRONG_PASSWORD, KEY_PASSWORD, *guarded.key_lines]
    assert "authentication" in guarded.node.log_text()
    kept = (guarded.node.folder / "server.properties").read_text()
    assert all(secret in kept for secret in (PLAIN_PASSWORD, NODE_PASSWORD, KEY_PASSWORD, *guarded.key_lines))
    found = {what: secret for what, text in guarded.heard.items() for secret in planted if secret in text}
    assert not found
    # A password that is set while the node runs is stored in the metadata log, as in Kafka; it is not printed either.
    said = [what for what, text in guarded.heard.items() if DYNAMIC_PASSWORD in text]
    assert all("__cluster_metadata" in what for what in said)
    assert said
