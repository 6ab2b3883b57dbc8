"""Three real nodes whose certificates and authorities change while librdkafka's clients come, go, write and read."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla_operator import local
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.local import ExitCode
from ottla_operator.planning.certificates import authorities

Document = dict[str, Any]

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

TIMEOUT_S = 150
TOPIC = "ledger"
USERS = {"alice": "scram-sha-512", "bob": "tls"}


def cluster(port: int, **tls: Document) -> Document:
    def listener(name: str, port: int, kind: str) -> Document:
        return {"name": name, "port": port, "tls": True, "authentication": {"type": kind}}

    return {
        "apiVersion": "ottla.dev/v1",
        "kind": "Cluster",
        "metadata": {"name": "demo", "annotations": {"ottla.dev/local-port": str(port)}},
        "spec": {
            "tls": tls,
            "listeners": [listener("passwords", 9094, "scram-sha-512"), listener("certificates", 9095, "tls")],
            "authorization": {},
            "pools": [{"name": "pool", "nodes": 3, "storage": {"size": "1Gi"}}],
        },
    }


def user(name: str, kind: str) -> Document:
    rules = [{"resource": {"type": kind, "name": "*"}, "operations": ["All"]} for kind in ("topic", "group")]
    return {
        "apiVersion": "ottla.dev/v1",
        "kind": "User",
        "metadata": {"name": name},
        "spec": {
            "clusterRef": {"name": "demo"},
            "authentication": {"type": kind},
            "authorization": {"rules": rules},
        },
    }


class Client:
    """A user who writes and reads over the same connections all the time, and others who keep opening new ones."""

    def __init__(self, name: str, secret: Path) -> None:
        self.name = name
        self.sent: list[str] = []
        self.delivered: set[str] = set()
        self.read: set[str] = set()
        self.troubles: list[str] = []
        self.newcomers = 0
        self._secret = secret
        self._is_over = threading.Event()
        settings = self.settings()
        self._producer = Producer({**settings, "acks": "all", "linger.ms": 5})
        self._consumer = Consumer({**settings, "group.id": name, "auto.offset.reset": "earliest"})
        self._consumer.subscribe([TOPIC])
        self._threads = [threading.Thread(target=it) for it in (self._write, self._take, self._come_and_go)]

    def settings(self) -> dict[str, Any]:
        said = json.loads((self._secret / "librdkafka.json").read_text())
        return {**said, "error_cb": lambda error: self.troubles.append(str(error)), "log.connection.close": True}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        while not self._is_over.wait(0.02):
            text = f"{self.name}-{len(self.sent)}"
            self.sent.append(text)
            self._producer.produce(TOPIC, text, on_delivery=self._on_delivery)
            self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def _on_delivery(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.delivered.add(message.value().decode())
        else:
            self.troubles.append(str(error))

    def _take(self) -> None:
        deadline = float("inf")
        while time.monotonic() < deadline and not (self._is_over.is_set() and self.read >= set(self.sent)):
            if self._is_over.is_set() and deadline == float("inf"):
                deadline = time.monotonic() + 30
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.read.add(message.value().decode())
            elif message is not None and (self.read or message.error().code() != KafkaError.UNKNOWN_TOPIC_OR_PART):
                # Before the first record: not every broker knows the new topic at once.
                self.troubles.append(str(message.error()))
        self._consumer.close()

    def _come_and_go(self) -> None:
        while not self._is_over.wait(0.3):
            newcomer = Producer(self.settings())
            newcomer.produce(TOPIC, "newcomer", on_delivery=lambda error, _: self._on_newcomer(error))
            if newcomer.flush(20):
                self.troubles.append("a newcomer's record did not arrive")

    def _on_newcomer(self, error: KafkaError | None) -> None:
        self.newcomers += error is None


@pytest.fixture
def port(free_ports: Callable[..., int]) -> int:
    return free_ports(3)


@pytest.fixture
def running(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state directory whose cluster runs; nodes here look for new files every three seconds."""
    monkeypatch.setattr(authorities, "SETTLE", timedelta(seconds=4))
    documents = [cluster(port), *(user(name, kind) for name, kind in USERS.items())]
    outcomes = local.apply(documents, state_dir=tmp_path, timeout_s=TIMEOUT_S)
    assert [it.exit_code for it in outcomes] == [ExitCode.OK] * 3, outcomes
    yield tmp_path
    local.down(state_dir=tmp_path)


@contextmanager
def talking(state_dir: Path) -> Iterator[list[Client]]:
    clients = [Client(name, state_dir / "secrets" / name) for name in USERS]
    admin = AdminClient(clients[0].settings())
    admin.create_topics([NewTopic(TOPIC, num_partitions=3, replication_factor=3)])[TOPIC].result(30)
    for client in clients:
        client.start()
    try:
        yield clients
    finally:
        for client in clients:
            client.stop()


def processes(state_dir: Path) -> set[int]:
    return {json.loads(path.read_text())["pid"] for path in state_dir.glob("nodes/*/process.json")}


def entry(state_dir: Path, secret: str, name: str) -> str:
    return (state_dir / "secrets" / secret / name).read_text()


def test_clients_lose_no_connection_while_certificates_and_authorities_change(running: Path, port: int) -> None:
    before = processes(running)
    first = {name: entry(running, f"demo-{name}", "ca.crt") for name in ("cluster-ca", "clients-ca")}
    second = {"rotation": {"revision": "2", "overlapSeconds": 0}}

    with talking(running) as clients:
        leaf = entry(running, "demo-nodes", "node.pem")
        (running / "secrets" / "demo-nodes").unlink()
        steps = [cluster(port), cluster(port, clusterCa=second), cluster(port, clusterCa=second, clientsCa=second)]
        for document in steps:
            (outcome,) = local.apply([document], state_dir=running, timeout_s=TIMEOUT_S)
            assert outcome.exit_code == ExitCode.OK, outcome

    assert entry(running, "demo-nodes", "node.pem") != leaf
    for name, certificate in first.items():
        assert entry(running, f"demo-{name}", "ca.crt") != certificate
        assert entry(running, f"demo-{name}", "trusted.crt") == entry(running, f"demo-{name}", "ca.crt")
    assert processes(running) == before, "no node was restarted"
    for client in clients:
        assert client.troubles == [], "no connection was lost, and no new connection rejected"
        assert client.newcomers > 10
        assert client.delivered == set(client.sent)
        assert client.read - {"newcomer"} >= set(client.sent)
    (stored,) = StateDirectory(running).objects("Cluster")
    assert [it["name"] for it in stored["status"]["certificates"]] == ["cluster-ca", "clients-ca", "nodes", "operator"]
