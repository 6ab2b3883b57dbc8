"""SASL with third-party clients: librdkafka, kafka-python and Kafka's tools, each mechanism, with and without TLS."""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic, ScramCredentialInfo, UserScramCredentialUpsertion
from confluent_kafka.admin import ScramMechanism as Mechanism
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

logging.getLogger("kafka").setLevel(logging.CRITICAL)

START_TIMEOUT_S = 60
PASSWORD = "alice secret=,;"
JAAS = "org.apache.kafka.common.security"
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")


class TokenProvider(AbstractTokenProvider):
    """The token provider of kafka-python."""

    def __init__(self, new_token: Callable[[], str], **config: Any) -> None:
        self._new_token = new_token

    def token(self) -> str:
        return self._new_token()


@dataclass(kw_only=True)
class SaslNode:
    """A running node, and the settings of clients to authenticate."""

    folder: Path
    ports: dict[str, int]
    authority: Any
    issuer: rsa.RSAPrivateKey

    def token(self, *, lifetime_s: int = 600, **claims: Any) -> str:
        now_s = int(time.time())
        said = {"sub": "alice", "iss": "https://issuer", "aud": "ottla", "iat": now_s, "exp": now_s + lifetime_s}
        return jwt.encode({**said, **claims}, self.issuer, "RS256", {"kid": "1"})

    def log_text(self) -> str:
        return (self.folder / "node.out").read_text(errors="replace")

    def librdkafka(self, protocol: str, mechanism: str, password: str = PASSWORD, **more: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": f"localhost:{self.ports[protocol]}",
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "ssl.ca.pem": self.authority.pem,
            "broker.address.family": "v4",
            "log_level": 0,
        }
        if mechanism == "OAUTHBEARER":
            settings["oauth_cb"] = lambda _: (password if password != PASSWORD else self.token(), time.time() + 300)
        else:
            settings |= {"sasl.username": "alice", "sasl.password": password}
        return settings | more

    def kafka_python(self, protocol: str, mechanism: str) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap_servers": f"localhost:{self.ports[protocol]}",
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "ssl_cafile": str(self.folder / "ca.pem"),
        }
        if mechanism == "OAUTHBEARER":
            return settings | {"sasl_oauth_token_provider": TokenProvider(self.token)}
        return settings | {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}

    def java(self, protocol: str, mechanism: str, password: str = PASSWORD) -> list[str]:
        """Return the options of a tool that name the node and a file with the login."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        lines = {
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{JAAS}.{module} required username="alice" password="{password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }
        path = self.folder / f"{protocol}-{mechanism}-{len(password)}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
        return ["--bootstrap-server", f"localhost:{self.ports[protocol]}", "--command-config", str(path)]


def properties(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    listeners = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    said = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": ",".join(listeners.values()),
        "advertised.listeners": ",".join(f"{name}://localhost:{ports[name]}" for name in PROTOCOLS),
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"localhost:{ports['CONTROLLER']}",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "sasl.enabled.mechanisms": ",".join((*PASSWORDS, "OAUTHBEARER")),
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{folder}/keys.json",
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"file://{folder}/keys.json",
        "sasl.oauthbearer.expected.audience": "ottla",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "connections.max.reauth.ms": "3000",
        "log.dirs": str(folder / "data"),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
    }
    for listener in ports:
        prefix = f"listener.name.{listener.lower()}"
        said[f"{prefix}.plain.sasl.jaas.config"] = f'{JAAS}.plain.PlainLoginModule required user_alice="{PASSWORD}";'
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            login = 'username="node" password="node-secret"'
            said[f"{prefix}.{mechanism}.sasl.jaas.config"] = f"{JAAS}.scram.ScramLoginModule required {login};"
    return said


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory,
    free_port: Callable[[], int],
    launch: Callable[[list[str], Path], "subprocess.Popen[bytes]"],
    authority: Any,
) -> Iterator[SaslNode]:
    """A node with its own credentials from its formatting; those of alice are set by a client."""
    folder = tmp_path_factory.mktemp("sasl")
    issuer = rsa.generate_private_key(65_537, 2_048)
    key = {**RSAAlgorithm.to_jwk(issuer.public_key(), as_dict=True), "kid": "1", "use": "sig"}
    (folder / "keys.json").write_text(json.dumps({"keys": [key]}))
    (folder / "node.pem").write_text(authority.issue("CN=node").both)
    (folder / "ca.pem").write_text(authority.pem)
    ports = {name: free_port() for name in (*PROTOCOLS, "CONTROLLER")}
    config = folder / "server.properties"
    config.write_text("".join(f"{key}={text}\n" for key, text in properties(folder, ports).items()))
    command = [sys.executable, "-m", "ottla"]
    formatting = [*command, "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(config), "--standalone"]
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        formatting += ["--add-scram", f"{mechanism}=[name=node,password=node-secret]"]
    subprocess.run(formatting, check=True, capture_output=True)
    process = launch([*command, "run", "-c", str(config)], folder / "node.out")
    node = SaslNode(folder=folder, ports=ports, authority=authority, issuer=issuer)
    try:
        wait_ready(node, process)
        set_credentials(node)
        yield node
    finally:
        process.terminate()
        assert process.wait(timeout=START_TIMEOUT_S) == 0


def wait_ready(node: SaslNode, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while "is ready" not in node.log_text():
        assert process.poll() is None, node.log_text()
        assert time.monotonic() < deadline, node.log_text()
        time.sleep(0.05)


def set_credentials(node: SaslNode) -> None:
    admin = AdminClient(node.librdkafka("SASL_PLAINTEXT", "PLAIN"))
    for mechanism in (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512):
        upsertion = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 8192), PASSWORD.encode())
        admin.alter_user_scram_credentials([upsertion])["alice"].result(30)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_librdkafka_writes_and_reads(
    node: SaslNode, unique: Callable[[str], str], mechanism: str, protocol: str
) -> None:
    settings, topic = node.librdkafka(protocol, mechanism), unique("rd")
    admin = AdminClient(settings)
    admin.poll(0)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(settings)
    for number in range(100):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(values) < 100 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            values.append(message.value())
    consumer.close()

    assert values == [str(number).encode() for number in range(100)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", [*PASSWORDS, "OAUTHBEARER"])
def test_kafka_python_writes_and_reads(
    node: SaslNode, unique: Callable[[str], str], mechanism: str, protocol: str
) -> None:
    settings, topic = node.kafka_python(protocol, mechanism), unique("py")
    producer = KafkaProducer(**settings)
    for number in range(100):
        producer.send(topic, str(number).encode())
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    values = [next(consumer).value for _ in range(100)]
    consumer.close()

    assert values == [str(number).encode() for number in range(100)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_kafka_s_console_tools_write_and_read(
    node: SaslNode,
    unique: Callable[[str], str],
    kafka_tool: Callable[..., Any],
    mechanism: str,
    protocol: str,
) -> None:
    options, topic = node.java(protocol, mechanism), unique("java")
    kafka_tool("kafka-topics", *options, "--create", "--topic", topic)
    kafka_tool("kafka-console-producer", *options, "--topic", topic, input="one\ntwo\n")
    read = kafka_tool("kafka-console-consumer", *options, "--topic", topic, "--from-beginning", "--max-messages", "2")

    assert read.stdout.split() == ["one", "two"]


@pytest.mark.parametrize("is_valid", [True, False], ids=["signed", "not-signed"])
def test_java_logs_in_with_a_token(node: SaslNode, kafka_tool: Callable[..., Any], is_valid: bool) -> None:
    """In a JVM of its own: a file with a token has to be allowed by a property of the JVM."""
    token = node.folder / "token.jwt"
    token.write_text(node.token())
    lines = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(node.folder / "ca.pem"),
        "sasl.jaas.config": f"{JAAS}.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{JAAS}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": f"file://{token}",
    }
    if not is_valid:
        del lines["sasl.login.callback.handler.class"]
        lines["sasl.jaas.config"] = lines["sasl.jaas.config"].replace(";", ' unsecuredLoginStringClaim_sub="alice";')
    config = node.folder / "oauth.properties"
    config.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{token}"
    command = ["java", allowed, "-cp", f"{os.environ['OTTLA_KAFKA_LIBS']}/*", "org.apache.kafka.tools.TopicCommand"]
    bootstrap = f"localhost:{node.ports['SASL_SSL']}"
    said = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, "--command-config", str(config), "--list"],
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert (said.returncode == 0) is is_valid, said.stdout + said.stderr
    assert ("invalid_token" in said.stdout + said.stderr) is not is_valid


def test_kafka_configs_sets_lists_and_removes_credentials(
    node: SaslNode, unique: Callable[[str], str], kafka_tool: Callable[..., Any]
) -> None:
    user = unique("user")
    configs = ("kafka-configs", *node.java("SASL_PLAINTEXT", "SCRAM-SHA-512"), "--entity-type", "users")
    for credential in ("SCRAM-SHA-256=[iterations=8192,password=first]", "SCRAM-SHA-512=[password=first]"):
        kafka_tool(*configs, "--entity-name", user, "--alter", "--add-config", credential)
    described = kafka_tool(*configs, "--describe", "--entity-name", user).stdout

    assert "SCRAM-SHA-256=iterations=8192" in described
    assert "SCRAM-SHA-512=iterations=4096" in described
    client = node.librdkafka("SASL_PLAINTEXT", "SCRAM-SHA-256", "first", **{"sasl.username": user})
    assert AdminClient(client).list_topics(timeout=10).brokers
    kafka_tool(*configs, "--entity-name", user, "--alter", "--delete-config", "SCRAM-SHA-256")
    with pytest.raises(KafkaException):
        AdminClient(client).list_topics(timeout=2)


@pytest.mark.parametrize("mechanism", PASSWORDS)
def test_wrong_password_gets_kafkas_message(node: SaslNode, kafka_tool: Callable[..., Any], mechanism: str) -> None:
    rejected = kafka_tool("kafka-topics", *node.java("SASL_SSL", mechanism, "wrong"), "--list", code=None)

    assert rejected.code != 0
    assert "SaslAuthenticationException" in rejected.stderr + rejected.stdout
    with pytest.raises(KafkaException):
        AdminClient(node.librdkafka("SASL_PLAINTEXT", mechanism, "wrong")).list_topics(timeout=2)


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"lifetime_s": -60}, id="expired"),
        pytest.param({"aud": "other"}, id="for-another"),
        pytest.param({"iss": "https://other"}, id="of-another-issuer"),
    ],
)
def test_invalid_token_is_rejected(node: SaslNode, claims: dict[str, Any]) -> None:
    admin = AdminClient(node.librdkafka("SASL_PLAINTEXT", "OAUTHBEARER", node.token(**claims)))
    admin.poll(0)

    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)


def test_session_is_renewed_while_a_client_works(node: SaslNode, kafka_tool: Callable[..., Any]) -> None:
    """Sessions hold for three seconds: the tool's producer works for seven, on one connection."""
    options = node.java("SASL_PLAINTEXT", "SCRAM-SHA-512")
    kafka_tool("kafka-topics", *options, "--create", "--topic", "renewed")
    before = node.log_text().count("was not renewed")
    result = kafka_tool(
        "kafka-producer-perf-test",
        *options,
        *("--topic", "renewed", "--num-records", "140", "--record-size", "10", "--throughput", "20"),
    )

    assert "140 records sent" in result.stdout
    assert node.log_text().count("was not renewed") == before


def test_no_secret_is_in_the_log(node: SaslNode) -> None:
    log = node.log_text()

    assert PASSWORD not in log
    assert "node-secret" not in log
    assert "eyJ" not in log, "no token either"
