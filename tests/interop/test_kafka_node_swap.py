"""A node of a JVM Kafka cluster is swapped for an Ottla node on its own directories, and back: no record is lost.

All three nodes are brokers and controllers. One topic never gets a record: its replicas keep the empty
leader-epoch-checkpoint that JVM Kafka creates.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from jvm_kafka import kafka_libs

from node_formatting import format_directories

HERE = Path(__file__).parent
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY_IDS = {1: "JEXY6aqzQY-32P5TStzaFg", 2: "KEXY6aqzQY-32P5TStzaFg", 3: "LEXY6aqzQY-32P5TStzaFg"}
SWAPPED = 1
TOPICS = ("orders", "quiet")
PARTITIONS = 3
RECORDS_PER_STEP = 300
WITHIN_S = 90


class SwapCluster:
    """Three nodes in ``directory``, each of them either implementation's."""

    def __init__(self, directory: Path, libs: Path, free_port: Callable[[], int], launch: Callable[..., Any]) -> None:
        self._directory = directory
        self._libs = libs
        self._launch = launch
        self._ports = {node_id: (free_port(), free_port()) for node_id in DIRECTORY_IDS}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port, _ in self._ports.values())
        for node_id in DIRECTORY_IDS:
            self._format(node_id)

    def data(self, node_id: int) -> Path:
        return self._directory / f"data-{node_id}"

    def start_kafka(self, node_id: int) -> None:
        log4j = f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}"
        flags = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", log4j]
        self._start(node_id, ["java", *flags, "-cp", f"{self._libs}/*", "kafka.Kafka", str(self._settings(node_id))])

    def start_ottla(self, node_id: int) -> None:
        self._start(node_id, [sys.executable, "-m", "ottla", "run", "-c", str(self._settings(node_id))])

    def end(self, node_id: int, how: signal.Signals) -> None:
        process = self._processes.pop(node_id)
        os.killpg(process.pid, how)
        process.wait(timeout=WITHIN_S)

    def close(self) -> None:
        for node_id in list(self._processes):
            self.end(node_id, signal.SIGKILL)

    def wait_for_replicas(self) -> None:
        """Wait until every partition of every topic has three replicas in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        deadline = time.monotonic() + WITHIN_S
        in_sync: dict[str, list[int]] = {}
        while time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                topics = admin.list_topics(timeout=5).topics
                in_sync = {
                    f"{name}-{index}": partition.isrs
                    for name, topic in topics.items()
                    for index, partition in topic.partitions.items()
                }
                if in_sync and all(len(isr) == len(DIRECTORY_IDS) for isr in in_sync.values()):
                    return
            time.sleep(0.1)
        outputs = [(self._directory / f"node-{each}.out").read_text()[-3000:] for each in DIRECTORY_IDS]
        pytest.fail("\n---\n".join([f"not all replicas are in sync: {in_sync}", *outputs]))

    def create_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [NewTopic(name, PARTITIONS, len(DIRECTORY_IDS)) for name in TOPICS]
        deadline = time.monotonic() + WITHIN_S
        while True:
            try:
                for created in admin.create_topics(wanted, operation_timeout=10).values():
                    created.result()
                return
            except KafkaException:
                # The brokers register one after the other; until three are there, three replicas have no place.
                assert time.monotonic() < deadline
                time.sleep(0.2)

    def digests(self, node_id: int) -> dict[str, str]:
        """Return a digest of each file of records in the test's topics."""
        logs = [path for topic in TOPICS for path in self.data(node_id).glob(f"{topic}-*/*.log")]
        return {f"{path.parent.name}/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest() for path in logs}

    def output(self, node_id: int) -> str:
        return (self._directory / f"node-{node_id}.out").read_text()

    def _start(self, node_id: int, command: list[str]) -> None:
        self._processes[node_id] = self._launch(command, self._directory / f"node-{node_id}.out")

    def _settings(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}.properties"

    def _format(self, node_id: int) -> None:
        clients, controller = self._ports[node_id]
        listeners = f"PLAINTEXT://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller}"
        controllers = ",".join(f"127.0.0.1:{port}" for _, port in self._ports.values())
        self._settings(node_id).write_text(
            f"process.roles=broker,controller\nnode.id={node_id}\nlisteners={listeners}\n"
            f"advertised.listeners={listeners}\ncontroller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"controller.quorum.bootstrap.servers={controllers}\nlog.dirs={self.data(node_id)}\n"
            "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
        )
        voters = ",".join(f"{each}@127.0.0.1:{self._ports[each][1]}:{DIRECTORY_IDS[each]}" for each in DIRECTORY_IDS)
        format_directories(self._settings(node_id), CLUSTER_ID, "--initial-controllers", voters)


@pytest.fixture
def cluster(tmp_path: Path, free_port: Callable[[], int], launch: Callable[..., Any]) -> Iterator[SwapCluster]:
    swap = SwapCluster(tmp_path, kafka_libs(), free_port, launch)
    yield swap
    swap.close()
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.timeout(300)
def test_node_is_swapped_for_ottla_on_its_directories_and_back(cluster: SwapCluster) -> None:
    for node_id in DIRECTORY_IDS:
        cluster.start_kafka(node_id)
    cluster.create_topics()
    cluster.wait_for_replicas()
    sent = _produce(cluster.bootstrap, 0)

    cluster.end(SWAPPED, signal.SIGTERM)
    assert (cluster.data(SWAPPED) / "quiet-0" / "leader-epoch-checkpoint").exists()
    cluster.start_ottla(SWAPPED)
    cluster.wait_for_replicas()
    sent += _produce(cluster.bootstrap, 1)
    assert "is offline" not in cluster.output(SWAPPED)

    cluster.end(SWAPPED, signal.SIGTERM)
    cluster.start_kafka(SWAPPED)
    cluster.wait_for_replicas()
    sent += _produce(cluster.bootstrap, 2)

    assert _consume(cluster.bootstrap, len(sent)) == sorted(sent)
    cluster.close()
    digests = [cluster.digests(node_id) for node_id in DIRECTORY_IDS]
    assert len(digests[0]) == 2 * PARTITIONS
    assert digests[0] == digests[1] == digests[2]


def _produce(bootstrap: str, step: int) -> list[bytes]:
    """Send records to every partition; return them when all replicas in sync have acknowledged them."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    acknowledged: list[bytes] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        value = message.value()
        assert value is not None
        acknowledged.append(value)

    for number in range(RECORDS_PER_STEP):
        value = b"step %d record %d" % (step, number)
        producer.produce("orders", value, partition=number % PARTITIONS, on_delivery=on_delivery)
    assert producer.flush(WITHIN_S) == 0
    return acknowledged


def _consume(bootstrap: str, count: int) -> list[bytes]:
    """Return every record of the topic, sorted, of which there should be ``count``."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "swap", "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", partition, 0) for partition in range(PARTITIONS)])
    deadline = time.monotonic() + WITHIN_S
    values: list[bytes] = []
    while len(values) < count and time.monotonic() < deadline:
        values += [value for each in consumer.consume(count, timeout=0.5) if (value := each.value()) is not None]
    consumer.close()
    return sorted(values)
