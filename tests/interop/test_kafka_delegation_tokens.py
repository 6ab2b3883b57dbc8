"""kafka-delegation-tokens and clients that log in with a token; the records in the metadata log, read by Kafka's tool.

The mixed quorum: JVM Kafka starts on the directory of our node, and its clients log in with the same token.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from configured_node import OTTLA, format_node
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from tool_host import PROGRAM_FLAGS

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET_KEY = "the key of all tokens"
USERS = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}


@dataclass(frozen=True)
class Token:
    token_id: str
    hmac: str
    rest: str


@dataclass(frozen=True)
class TokenNode:
    """A node with delegation tokens, whose users log in with PLAIN and whose tokens with SCRAM."""

    node: Any
    port: int
    kafka_tool: Callable[..., Any]

    def config(self, name: str, mechanism: str, jaas: str) -> list[str]:
        """Return the options of a tool that name the node and a file with this login."""
        path = self.node.directory / f"{name}.properties"
        path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas};\n")
        return ["--bootstrap-server", f"127.0.0.1:{self.port}", "--command-config", str(path)]

    def user(self, name: str = "alice") -> list[str]:
        return self.config(name, "PLAIN", f'{PLAIN} required username="{name}" password="{USERS[name]}"')

    def token(self, token: Token, mechanism: str) -> list[str]:
        login = f'{SCRAM} required username="{token.token_id}" password="{token.hmac}" tokenauth="true"'
        return self.config(f"{token.token_id}-{mechanism}", mechanism, login)

    def tokens(self, *args: str, login: list[str] | None = None, code: int | None = 0) -> Any:
        return self.kafka_tool("kafka-delegation-tokens", *(login or self.user()), *args, code=code)

    def create(self, *args: str) -> Token:
        shown = self.tokens("--create", "--max-life-time-period", "-1", *args).lines[-1]
        return Token(*shown.split(None, 2))

    def listed(self, login: list[str] | None = None) -> dict[str, str]:
        """Return the rows of alice's tokens that the user sees, by id; without an owner the tool lists none."""
        lines = self.tokens("--describe", "--owner-principal", "User:alice", login=login).lines
        return {line.split()[0]: line for line in lines if re.match(r"[\w-]{22} ", line)}


def properties(directory: Path, port: int, sasl_port: int, controller_port: int) -> dict[str, str]:
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN} required {users};",
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "log.dirs": str(directory / "data"),
        "delegation.token.secret.key": SECRET_KEY,
        "delegation.token.expiry.check.interval.ms": "1000",
    }


@pytest.fixture(scope="module")
def tokens(new_node: Callable[..., Any], free_port: Callable[[], int], kafka_tool: Callable[..., Any]) -> TokenNode:
    sasl_port = free_port()

    def command(port: int, directory: Path) -> list[str]:
        config = format_node(directory, properties(directory, port, sasl_port, free_port()))
        return [*OTTLA, "run", "-c", str(config), "--log-level", "debug"]

    return TokenNode(new_node(command_of=command), sasl_port, kafka_tool)


def test_token_is_created_described_renewed_and_expired(tokens: TokenNode) -> None:
    token = tokens.create("--renewer-principal", "User:bob")
    assert token.rest.split()[:3] == ["User:alice", "User:alice", "[User:bob]"]
    assert token.hmac in tokens.listed()[token.token_id]

    renewed = tokens.tokens("--renew", "--renew-time-period", "-1", "--hmac", token.hmac, login=tokens.user("bob"))
    assert "Completed renew operation" in renewed.stdout
    expired = tokens.tokens("--expire", "--expiry-time-period", "-1", "--hmac", token.hmac)
    assert "Completed expire operation" in expired.stdout

    assert token.token_id not in tokens.listed()


def test_strangers_do_not_renew_a_token(tokens: TokenNode) -> None:
    token = tokens.create()
    renewal = ("--renew", "--renew-time-period", "-1", "--hmac", token.hmac)
    rejected = tokens.tokens(*renewal, login=tokens.user("bob"), code=None)
    assert rejected.code != 0
    assert "DelegationTokenOwnerMismatchException" in rejected.stdout + rejected.stderr


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_client_logs_in_with_a_token_and_may_not_create_another(
    tokens: TokenNode, kafka_tool: Callable[..., Any], unique: Callable[[str], str], mechanism: str
) -> None:
    token, topic = tokens.create(), unique("topic")
    login = tokens.token(token, mechanism)

    kafka_tool("kafka-topics", *login, "--create", "--topic", topic)

    assert topic in kafka_tool("kafka-topics", *login, "--list").lines
    rejected = tokens.tokens("--create", "--max-life-time-period", "-1", login=login, code=None)
    assert "Delegation Token requests are not allowed" in rejected.stdout + rejected.stderr


def test_client_with_an_expired_or_forged_token_is_rejected(tokens: TokenNode, eventually: Callable[..., Any]) -> None:
    token = tokens.create()
    tokens.tokens("--expire", "--expiry-time-period", "10", "--hmac", token.hmac)
    eventually(lambda: token.token_id not in tokens.listed())

    def topics(password: str) -> None:
        settings = {
            "bootstrap.servers": f"127.0.0.1:{tokens.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": token.token_id,
            "sasl.password": password,
            "log_level": 0,
        }
        AdminClient(settings).list_topics(timeout=3)

    with pytest.raises(KafkaException):
        topics(token.hmac)
    rejected = tokens.kafka_tool("kafka-topics", *tokens.token(token, "SCRAM-SHA-512"), "--list", code=None)
    assert "SaslAuthenticationException" in rejected.stdout + rejected.stderr


def test_no_secret_is_logged_or_stored(tokens: TokenNode, kafka_tool: Callable[..., Any]) -> None:
    token = tokens.create()
    kafka_tool("kafka-topics", *tokens.token(token, "SCRAM-SHA-256"), "--list")
    described = kafka_tool(
        "kafka-configs", *tokens.user(), "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all"
    )

    texts = [tokens.node.log_text(), described.stdout]
    texts += [each.read_bytes().decode("latin-1") for each in (tokens.node.data_dir).rglob("*.log")]
    for secret in (token.hmac, SECRET_KEY):
        assert not any(secret in text for text in texts)
    assert "delegation.token.secret.key=null sensitive=true" in described.stdout


def test_kafka_reads_the_records_of_tokens(tokens: TokenNode, kafka_tool: Callable[..., Any]) -> None:
    kept, removed = tokens.create("--renewer-principal", "User:bob"), tokens.create()
    tokens.tokens("--expire", "--expiry-time-period", "-1", "--hmac", removed.hmac)
    log = tokens.node.data_dir / "__cluster_metadata-0" / f"{0:020}.log"

    dumped = kafka_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log))

    payloads = [json.loads(found) for found in re.findall(r"payload: (\{.*\})", dumped.stdout)]
    by_type = {
        kind: [each["data"] for each in payloads if each["type"] == kind] for kind in {p["type"] for p in payloads}
    }
    (record,) = [each for each in by_type["DELEGATION_TOKEN_RECORD"] if each["tokenId"] == kept.token_id]
    assert (record["owner"], record["requester"], record["renewers"]) == ("User:alice", "User:alice", ["User:bob"])
    assert record["issueTimestamp"] < record["expirationTimestamp"] < record["maxTimestamp"]
    assert removed.token_id in [each["tokenId"] for each in by_type["REMOVE_DELEGATION_TOKEN_RECORD"]]


def test_kafka_serves_our_tokens_on_the_same_directory_and_we_serve_those_it_created(
    tokens: TokenNode, kafka_tool: Callable[..., Any]
) -> None:
    ours, node = tokens.create("--renewer-principal", "User:bob"), tokens.node
    described = tokens.listed()[ours.token_id]
    node.kill()
    own_command = node.command
    libs = os.environ["OTTLA_KAFKA_LIBS"]
    config = own_command[own_command.index("-c") + 1]
    node.command = ["java", *PROGRAM_FLAGS, "-Xmx512m", "-cp", f"{libs}/*", "kafka.Kafka", config]
    node.start()
    try:
        assert tokens.listed()[ours.token_id] == described
        kafka_tool("kafka-topics", *tokens.token(ours, "SCRAM-SHA-512"), "--list")
        theirs = tokens.create()
    finally:
        node.kill()
        node.command = own_command
    node.start()

    assert tokens.listed()[ours.token_id] == described
    assert theirs.hmac in tokens.listed()[theirs.token_id]
    kafka_tool("kafka-topics", *tokens.token(theirs, "SCRAM-SHA-256"), "--list")
