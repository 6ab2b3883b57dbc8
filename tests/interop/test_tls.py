"""TLS with third-party clients: librdkafka, kafka-python and Kafka's own tools, with and without a certificate.

The node has one listener that requests no client certificate and one that requires it; its own connections use TLS,
too.
"""

import json
import logging
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from configured_node import OTTLA, format_node
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer

from ottla.config.tls_settings import read_tls_settings
from ottla.errors import ConfigurationError
from ottla.runtime.tls_contexts import make_contexts, require_trusts_itself

logging.getLogger("kafka").setLevel(logging.ERROR)

START_TIMEOUT_S = 60
RECORDS = 200


@dataclass(kw_only=True)
class TlsNode:
    """A running node, and the settings of clients to connect."""

    folder: Path
    tls_port: int
    mutual_port: int
    authority: Any
    process: subprocess.Popen[bytes]

    def log_text(self) -> str:
        return (self.folder / "node.out").read_text(errors="replace")

    def librdkafka(self, *, mutual: bool, **more: Any) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": f"localhost:{self.mutual_port if mutual else self.tls_port}",
            "security.protocol": "SSL",
            "ssl.ca.pem": self.authority.pem,
            "broker.address.family": "v4",
        }
        if mutual:
            settings["ssl.certificate.location"] = str(self.folder / "client.pem")
            settings["ssl.key.location"] = str(self.folder / "client.pem")
        return settings | more

    def kafka_python(self, *, mutual: bool) -> dict[str, Any]:
        context = ssl.create_default_context(cadata=self.authority.pem)
        if mutual:
            context.load_cert_chain(str(self.folder / "client.pem"))
        return {
            "bootstrap_servers": f"localhost:{self.mutual_port if mutual else self.tls_port}",
            "security_protocol": "SSL",
            "ssl_context": context,
        }

    def java(self, *, mutual: bool, store: str = "PEM") -> tuple[str, Path]:
        """Return the bootstrap address and a file for ``--command-config``."""
        lines = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
        lines["ssl.truststore.location"] = str(self.folder / "ca.pem")
        if mutual:
            lines |= {"ssl.keystore.type": store, "ssl.keystore.location": str(self.folder / "client.pem")}
        path = self.folder / f"java-{mutual}.properties"
        path.write_text("".join(f"{key}={text}\n" for key, text in lines.items()))
        return f"localhost:{self.mutual_port if mutual else self.tls_port}", path


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, free_port: Callable[[], int], authority: Any) -> Iterator[TlsNode]:
    folder = tmp_path_factory.mktemp("tls")
    tls_port, mutual_port, controller_port = free_port(), free_port(), free_port()
    (folder / "node.pem").write_text(authority.issue("CN=node").both)
    (folder / "client.pem").write_text(authority.issue("CN=client,OU=tests").both)
    (folder / "ca.pem").write_text(authority.pem)
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": (
            f"SSL://127.0.0.1:{tls_port},MUTUAL://127.0.0.1:{mutual_port},CONTROLLER://127.0.0.1:{controller_port}"
        ),
        "advertised.listeners": f"SSL://localhost:{tls_port},MUTUAL://localhost:{mutual_port}",
        "listener.security.protocol.map": "SSL:SSL,MUTUAL:SSL,CONTROLLER:SSL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"localhost:{controller_port}",
        "inter.broker.listener.name": "MUTUAL",
        "log.dirs": str(folder / "data"),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "node.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
    }
    config = format_node(folder, properties)
    with (folder / "node.out").open("ab") as output:
        process = subprocess.Popen([*OTTLA, "run", "--config", str(config)], stdout=output, stderr=output)
    running = TlsNode(folder=folder, tls_port=tls_port, mutual_port=mutual_port, authority=authority, process=process)
    deadline = time.monotonic() + START_TIMEOUT_S
    while "is ready" not in running.log_text():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"the node did not start:\n{running.log_text()[-4000:]}")
        time.sleep(0.05)
    yield running
    process.terminate()
    assert process.wait(START_TIMEOUT_S) == 0, running.log_text()[-4000:]


@pytest.fixture
def topic(node: TlsNode, unique: Callable[[str], str]) -> str:
    name = unique("tls")
    admin = AdminClient(node.librdkafka(mutual=False))
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


VALUES = [f"value {number}".encode() * (number % 50 + 1) for number in range(RECORDS)]
both_ways = pytest.mark.parametrize("mutual", [False, True], ids=["tls", "mutual-tls"])


@both_ways
def test_librdkafka_consumes_its_own_records(node: TlsNode, topic: str, mutual: bool) -> None:
    producer = Producer(node.librdkafka(mutual=mutual))
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer(node.librdkafka(mutual=mutual, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    read: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(read) < RECORDS and time.monotonic() < deadline:
        read += [message.value() for message in consumer.consume(100, timeout=0.5)]
    consumer.close()

    assert read == VALUES


@both_ways
def test_kafka_python_consumes_its_own_records(node: TlsNode, topic: str, mutual: bool) -> None:
    producer = KafkaProducer(**node.kafka_python(mutual=mutual))
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=60_000, **node.kafka_python(mutual=mutual)
    )
    read = [next(consumer).value for _ in range(RECORDS)]
    consumer.close()

    assert read == VALUES


@both_ways
def test_console_tools_consume_their_own_records(
    node: TlsNode, topic: str, mutual: bool, kafka_tool: Callable[..., Any]
) -> None:
    address, config = node.java(mutual=mutual)
    lines = [f"line {number}" for number in range(50)]
    common = ["--bootstrap-server", address, "--topic", topic, "--command-config", str(config)]
    kafka_tool("kafka-console-producer", *common, input="\n".join(lines) + "\n")
    read = kafka_tool("kafka-console-consumer", *common, "--from-beginning", "--max-messages", "50")

    assert read.lines == lines


def test_topics_tool_creates_and_describes_over_mutual_tls(
    node: TlsNode, unique: Callable[[str], str], kafka_tool: Callable[..., Any]
) -> None:
    address, config = node.java(mutual=True)
    name = unique("by-tool")
    common = ["--bootstrap-server", address, "--command-config", str(config), "--topic", name]
    kafka_tool("kafka-topics", *common, "--create", "--partitions", "2")
    described = kafka_tool("kafka-topics", *common, "--describe")

    assert "PartitionCount: 2" in described.stdout


def test_client_without_a_required_certificate_is_rejected(node: TlsNode) -> None:
    settings = node.librdkafka(mutual=False)
    settings["bootstrap.servers"] = f"localhost:{node.mutual_port}"
    with pytest.raises(KafkaException):
        AdminClient(settings | {"log_level": 0}).list_topics(timeout=3)

    assert "the client presented no certificate, and ssl.client.auth is required" in node.log_text()


def test_java_client_without_a_required_certificate_gets_the_reason(
    node: TlsNode, kafka_tool: Callable[..., Any]
) -> None:
    _, config = node.java(mutual=False)
    address = f"localhost:{node.mutual_port}"
    rejected = kafka_tool(
        "kafka-topics", "--bootstrap-server", address, "--command-config", str(config), "--list", code=1
    )

    assert "SslAuthenticationException" in rejected.stdout + rejected.stderr


def test_plaintext_client_is_named_in_the_log(node: TlsNode) -> None:
    admin = AdminClient({"bootstrap.servers": f"localhost:{node.tls_port}", "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)

    assert "this looks like a plaintext Kafka client on a TLS listener" in node.log_text()


class Watched:
    """Settings of a librdkafka client that notes how often it lost a connection to the node."""

    def __init__(self) -> None:
        self.disconnects: set[int] = set()
        self.settings = {"statistics.interval.ms": 200, "stats_cb": self._note}

    def _note(self, text: str) -> None:
        brokers = json.loads(text)["brokers"].values()
        self.disconnects |= {broker["disconnects"] for broker in brokers if broker["nodeid"] == 1}


def serial_number(node: TlsNode) -> str:
    """Return the number of the certificate that a new connection sees."""
    context = ssl.create_default_context(cadata=node.authority.pem)
    raw = socket.create_connection(("127.0.0.1", node.tls_port))
    with context.wrap_socket(raw, server_hostname="localhost") as sock:
        return str(sock.getpeercert()["serialNumber"])


def test_certificate_that_changes_under_load_costs_no_connection(node: TlsNode, topic: str) -> None:
    sending, reading = Watched(), Watched()
    producer = Producer(node.librdkafka(mutual=False, **{"linger.ms": 5}, **sending.settings))
    consumer = Consumer(
        node.librdkafka(mutual=False, **{"group.id": topic, "auto.offset.reset": "earliest"}, **reading.settings)
    )
    consumer.subscribe([topic])
    problems: list[Any] = []
    sent = read = 0

    def load(seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        nonlocal sent, read
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not until():
            producer.produce(topic, b"x" * 100, on_delivery=lambda error, _: error and problems.append(error))
            sent += 1
            producer.poll(0.001)
            messages = consumer.consume(100, timeout=0)
            problems.extend(message.error() for message in messages if message.error() is not None)
            read += len(messages)

    load(10, until=lambda: read > 0)
    load(1)
    before = serial_number(node)
    renewed = node.folder / "node.new"
    renewed.write_text(node.authority.issue("CN=node").both)
    renewed.rename(node.folder / "node.pem")
    load(30, until=lambda: "listener SSL has new certificates" in node.log_text())
    load(1)
    assert producer.flush(30) == 0
    after = serial_number(node)
    deadline = time.monotonic() + 60
    while read < sent and time.monotonic() < deadline:
        read += len(consumer.consume(1000, timeout=0.5))
    consumer.close()

    assert before != after
    assert problems == []
    assert read == sent
    assert (sending.disconnects, reading.disconnects) == ({0}, {0})


def alter(node: TlsNode, kafka_tool: Callable[..., Any], *arguments: str, code: int = 0) -> Any:
    address, config = node.java(mutual=False)
    common = ["--bootstrap-server", address, "--command-config", str(config)]
    return kafka_tool(
        "kafka-configs", *common, "--alter", "--entity-type", "brokers", "--entity-name", "1", *arguments, code=code
    )


def test_listener_takes_other_certificates_by_kafka_configs(
    node: TlsNode, kafka_tool: Callable[..., Any], eventually: Callable[..., object]
) -> None:
    key = "listener.name.mutual.ssl.keystore.location"
    (node.folder / "other.pem").write_text(node.authority.issue("CN=node").both)
    mark = len(node.log_text())
    alter(node, kafka_tool, "--add-config", f"{key}={node.folder / 'other.pem'}")
    assert eventually(lambda: "listener MUTUAL has new certificates" in node.log_text()[mark:])
    alter(node, kafka_tool, "--delete-config", key)
    assert eventually(lambda: node.log_text()[mark:].count("listener MUTUAL has new certificates") == 2)


@pytest.mark.parametrize(
    ("said", "rejected"),
    [
        pytest.param(
            "ssl.keystore.location={}/node.pem", "only per-listener using the listener prefix", id="for-all-listeners"
        ),
        pytest.param("listener.name.ssl.ssl.keystore.location={}/nowhere.pem", "cannot be read", id="no-such-file"),
        pytest.param(
            "listener.name.ssl.ssl.keystore.location={}/client.pem", "ssl.allow.dn.changes", id="another-name"
        ),
    ],
)
def test_unusable_certificates_are_rejected_at_once(
    node: TlsNode, kafka_tool: Callable[..., Any], said: str, rejected: str
) -> None:
    output = alter(node, kafka_tool, "--add-config", said.format(node.folder), code=1)

    assert "InvalidRequestException" in output.stdout + output.stderr
    assert rejected in output.stdout + output.stderr


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@pytest.mark.skipif(shutil.which("keytool") is None, reason="no JDK with keytool on the path")
def test_pkcs12_stores_of_keytool_are_read_and_jks_is_rejected(tmp_path: Path) -> None:
    made = ["-alias", "node", "-dname", "CN=node", "-storepass", "secret", "-keyalg", "RSA"]
    keytool("-genkeypair", *made, "-keystore", f"{tmp_path}/keys.p12", "-storetype", "PKCS12")
    keytool("-genkeypair", *made, "-keystore", f"{tmp_path}/keys.jks", "-storetype", "JKS", "-keypass", "secret")
    exported = ["-alias", "node", "-storepass", "secret", "-file", f"{tmp_path}/node.crt"]
    keytool("-exportcert", *exported, "-keystore", f"{tmp_path}/keys.p12")
    keytool("-importcert", "-noprompt", *exported, "-keystore", f"{tmp_path}/trusted.p12", "-storetype", "PKCS12")
    properties = {
        "ssl.keystore.location": f"{tmp_path}/keys.p12",
        "ssl.keystore.password": "secret",
        "ssl.truststore.location": f"{tmp_path}/trusted.p12",
        "ssl.truststore.password": "secret",
        "ssl.client.auth": "required",
    }

    require_trusts_itself(make_contexts(read_tls_settings(properties, "SSL"), opened=True))
    own_kind = {**properties, "ssl.keystore.location": f"{tmp_path}/keys.jks"}
    with pytest.raises(ConfigurationError, match=r"Convert it: keytool -importkeystore -srckeystore \S+keys\.jks"):
        make_contexts(read_tls_settings(own_kind, "SSL"), opened=True)
