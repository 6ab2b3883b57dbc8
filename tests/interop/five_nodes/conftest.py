"""Five nodes as processes, three of them controllers too, for Kafka's own tools.

Environment:
    OTTLA_INTEROP_RUN: the command that runs one node, with ``{config}`` in it. `kafka.Kafka` from Kafka's jars passes
        the same tests, so they claim Kafka's behaviour.
"""

import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from node_formatting import format_directories

OTTLA_RUN = f"{shlex.quote(sys.executable)} -m ottla run --config {{config}}"
HOST = "127.0.0.1"
WITHIN_S = 90
PROGRAM_WITHIN_S = 120
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
CONTROLLERS = (1, 2, 3)
NODES = (1, 2, 3, 4, 5)
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
}


@dataclass(kw_only=True)
class FiveNodes:
    """Nodes 1 to 3 are controllers and brokers, 4 and 5 only brokers: observers of the quorum."""

    directory: Path
    kafka_tool: Callable[..., Any]
    launch: Callable[..., Any]
    client_ports: dict[int, int]
    controller_ports: dict[int, int]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.client_ports.values())

    def config(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.properties"

    def data(self, node_id: int) -> Path:
        return self.directory / f"data-{node_id}"

    def output(self, node_id: int) -> Path:
        return self.directory / f"node-{node_id}.out"

    def directory_id(self, node_id: int) -> str:
        properties = (self.data(node_id) / "meta.properties").read_text()
        return next(line.split("=")[1] for line in properties.splitlines() if line.startswith("directory.id="))

    def tool(self, name: str, *args: str, **more: Any) -> Any:
        """Run one of Kafka's tools by way of any broker."""
        return self.kafka_tool(name, "--bootstrap-server", self.bootstrap, *args, **more)

    def format(self) -> None:
        voters = ",".join(f"{each}@{HOST}:{self.controller_ports[each]}:{_directory_id(each)}" for each in CONTROLLERS)
        for node_id in NODES:
            self.config(node_id).write_text("".join(f"{key}={value}\n" for key, value in self._settings(node_id)))
            first = ["--initial-controllers", voters] if node_id in CONTROLLERS else []
            format_directories(self.config(node_id), CLUSTER_ID, *first)

    def _settings(self, node_id: int) -> list[tuple[str, str]]:
        is_controller = node_id in CONTROLLERS
        clients = f"PLAINTEXT://{HOST}:{self.client_ports[node_id]}"
        listeners = f"{clients},CONTROLLER://{HOST}:{self.controller_ports[node_id]}" if is_controller else clients
        return [
            ("process.roles", "broker,controller" if is_controller else "broker"),
            ("node.id", str(node_id)),
            ("listeners", listeners),
            ("advertised.listeners", listeners),
            ("controller.listener.names", "CONTROLLER"),
            ("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"),
            (
                "controller.quorum.bootstrap.servers",
                ",".join(f"{HOST}:{port}" for port in self.controller_ports.values()),
            ),
            ("log.dirs", str(self.data(node_id))),
            *SETTINGS.items(),
        ]

    def start(self, *node_ids: int) -> None:
        """Start nodes, and wait until every broker is known again."""
        template = os.environ.get("OTTLA_INTEROP_RUN", OTTLA_RUN)
        for node_id in node_ids:
            command = shlex.split(template.format(config=shlex.quote(str(self.config(node_id)))))
            self.processes[node_id] = self.launch(command, self.output(node_id))
        for node_id in node_ids:
            self.wait_until_it_listens(node_id)
        self.wait_for(lambda: self.alive() == sorted(self.processes))

    def wait_until_it_listens(self, node_id: int) -> None:
        def listens() -> bool:
            with socket.socket() as connection:
                return connection.connect_ex((HOST, self.client_ports[node_id])) == 0

        self.wait_for(listens)

    def alive(self) -> list[int]:
        """Return the brokers that may lead: those that the tool lists and that respond to it.

        One that was fenced a moment ago is still listed; while it restarts it sends no response before it is unfenced.
        """
        shown = self.tool("kafka-broker-api-versions", code=None).stdout
        return sorted(int(found) for found in re.findall(r"\(id: (\d+) rack: \S+ isFenced: false\) -> \(", shown))

    def kill(self, node_id: int) -> None:
        self._end(node_id, signal.SIGKILL)

    def kill_and_restart(self, choices: random.Random) -> None:
        """Kill a random node with SIGKILL, and start it again: sometimes before and sometimes after it is fenced."""
        node_id = choices.choice([*self.processes])
        self.kill(node_id)
        time.sleep(choices.uniform(0.2, 6))
        self.start(node_id)

    def stop(self, node_id: int) -> None:
        """Shut the node down in order, and wait for it."""
        self._end(node_id, signal.SIGTERM)

    def _end(self, node_id: int, how: signal.Signals) -> None:
        process = self.processes.pop(node_id)
        os.killpg(process.pid, how)
        try:
            process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            pytest.fail(f"node {node_id} did not end of {how.name}")

    def close(self) -> None:
        for node_id in list(self.processes):
            self._end(node_id, signal.SIGKILL)

    def wait_for(self, check: Callable[[], Any]) -> Any:
        """Call ``check`` until its result is true and return that, or fail with the output of the nodes."""
        deadline = time.monotonic() + WITHIN_S
        while not (result := check()):
            if time.monotonic() > deadline:
                said = [f"node {each}:\n{self.output(each).read_text()[-2500:]}" for each in NODES]
                pytest.fail("\n".join([f"it did not come to that: {result!r}", *said]))
            time.sleep(0.1)
        return result

    def settle(self, ask: Callable[[], Any], expected: object) -> None:
        """Call ``ask`` until its result is ``expected``: brokers apply a change a moment after the controller."""
        deadline = time.monotonic() + WITHIN_S
        while (result := ask()) != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert result == expected

    def create(self, topic: str, *args: str, **config: str) -> None:
        """Create ``topic``, with ``args`` of kafka-topics, and wait until every broker has it."""
        settings = [part for key, value in config.items() for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tool("kafka-topics", "--create", "--topic", topic, *args, *settings)
        for node_id in self.processes:
            self._wait_until_known(topic, node_id)

    def _wait_until_known(self, topic: str, node_id: int) -> None:
        admin = AdminClient({"bootstrap.servers": f"{HOST}:{self.client_ports[node_id]}", "log_level": 0})
        self.wait_for(lambda: topic in admin.list_topics(timeout=30).topics)

    def create_at(self, topic: str, assignment: str, **config: str) -> None:
        """Create ``topic`` with ``assignment``, such as ``1:2:3,2:3:4`` for two partitions."""
        self.create(topic, "--replica-assignment", assignment, **config)

    def describe(self, *args: str) -> list[dict[str, str]]:
        """Return the partitions that ``kafka-topics --describe`` shows, as its own names and texts."""
        shown = self.tool("kafka-topics", "--describe", *args)
        lines = [line.strip("\t").split("\t") for line in shown.lines if line.startswith("\t")]
        return [{key: text.strip() for key, text in (each.split(":", 1) for each in line)} for line in lines]

    def partition(self, topic: str, index: int = 0) -> dict[str, str]:
        return self.describe("--topic", topic)[index]

    def produce(self, topic: str, *, count: int, size_bytes: int = 100, partition: int = 0) -> None:
        """Send records, and wait until all of them are acknowledged by all replicas that are in sync."""
        rejected: list[object] = []
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all", "log_level": 0})
        for _ in range(count):
            producer.produce(
                topic,
                b"x" * size_bytes,
                partition=partition,
                on_delivery=lambda error, _: rejected.append(error) if error is not None else None,
            )
            producer.poll(0)
        assert producer.flush(WITHIN_S) == 0
        assert rejected == []


def _directory_id(node_id: int) -> str:
    return f"{'HIJKL'[node_id]}EXY6aqzQY-32P5TStzaFg"


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory,
    kafka_tool: Callable[..., Any],
    free_port: Callable[[], int],
    launch: Callable[..., Any],
) -> Iterator[FiveNodes]:
    """The nodes, which the tests of a module share."""
    nodes = FiveNodes(
        directory=tmp_path_factory.mktemp("five"),
        kafka_tool=kafka_tool,
        launch=launch,
        client_ports={each: free_port() for each in NODES},
        controller_ports={each: free_port() for each in CONTROLLERS},
    )
    nodes.format()
    try:
        nodes.start(*NODES)
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(nodes.directory, ignore_errors=True)


@pytest.fixture
def five(shared: FiveNodes) -> FiveNodes:
    """The five nodes, all of them up."""
    shared.start(*(each for each in NODES if each not in shared.processes))
    return shared


@pytest.fixture
def start(tmp_path: Path, bound: list[str]) -> Iterator[Callable[..., Any]]:
    """Return ``start(command, name)``: run a program whose output goes to the file ``name``; it ends with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def run(command: list[str], name: str) -> subprocess.Popen[bytes]:
        with (tmp_path / name).open("ab") as output:
            running.append(subprocess.Popen([*bound, *command], stdout=output, stderr=output))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def read_committed(take: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Return ``read_committed(bootstrap, topic, partitions=..., count=..., exact=True)``.

    It reads ``count`` committed records; where that is exact, it fails if more come within two seconds.
    """

    def read(bootstrap: str, topic: str, *, partitions: int, count: int, exact: bool = True) -> list[Any]:
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
        consumer = Consumer(settings | {"enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        try:
            records: list[Any] = take(consumer, count, PROGRAM_WITHIN_S)
            extra = consumer.poll(2.0) if exact else None
            assert extra is None, f"a record too many: {extra.value()!r} at offset {extra.offset()}"
            return records
        finally:
            consumer.close()

    return read
