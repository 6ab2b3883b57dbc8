"""Nodes on this host that a benchmark starts, kills and queries: Ottla or JVM Kafka, three combined ones by default.

Both systems are formatted before anything is measured, run in the foreground as children of the benchmark, and keep
their defaults. Queries use plain sockets, so that no client library's delays are measured.
"""

import argparse
import base64
import contextlib
import os
import shlex
import signal
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import either_system, frames, measure, sick_network
from benchmarks.wall_clocks import WallClock
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

NODE_IDS = (1, 2, 3)
STOP_TIMEOUT_S = 60
READY_TIMEOUT_S = 120
METADATA_TOPIC = b"__cluster_metadata"
CREATE_TOPICS, DESCRIBE_QUORUM = 19, 55
TOPIC_ALREADY_EXISTS = 36

ADMIN_LISTENER = "ottla.admin.listener=127.0.0.1:{admin_port}\n"
"""A property of nodes of Ottla, for `Cluster.metrics`."""

PROPERTIES = """process.roles={roles}
node.id={node}
controller.quorum.bootstrap.servers={controllers}
listeners={listeners}
advertised.listeners={listeners}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
"""


@dataclass(kw_only=True)
class Cluster:
    """Nodes 1 to ``size``; node i serves clients on ``port_base`` + i - 1, controllers on ``port_base`` + 99 + i."""

    system: str
    directory: Path
    port_base: int
    kafka_command: str | None = None
    """Formats (``--format-only``) or becomes (``--node I --foreground``) JVM Kafka nodes; {dir} and {port} in it.

    Without it, JVM Kafka is run from its jars in ``$OTTLA_KAFKA_LIBS``.
    """

    size: int = 3
    """Nodes; the first three are voters of the quorum as well, further ones brokers only."""

    properties: str = ""
    """Further lines of each node's configuration."""

    log_dirs: Sequence[str] = ("data",)
    """In the directory of each node. With several, JVM Kafka is run from its jars."""

    network: sick_network.Network | None = None
    """Its hosts run the nodes; then JVM Kafka is run from its jars, too."""

    clocks: dict[int, WallClock] = field(default_factory=dict)
    """Of the nodes that have a wall clock of their own."""

    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def node_ids(self) -> range:
        return range(1, self.size + 1)

    @property
    def voters(self) -> range:
        return self.node_ids[: len(NODE_IDS)]

    @property
    def bootstrap_server(self) -> str:
        return ",".join(f"{self.host(node)}:{self.port(node)}" for node in self.node_ids)

    def host(self, node: int) -> str:
        return "127.0.0.1" if self.network is None else sick_network.address(node)

    def port(self, node: int) -> int:
        return self.port_base + node - 1

    def output_path(self, node: int) -> Path:
        """Return the path of the process's log."""
        return self.directory / f"node-{node}.out"

    def format(self) -> None:
        """Write every node's configuration and prepare its directory."""
        if self.system == "kafka" and not self._is_run_from_jars:
            subprocess.run([*self._kafka_words(), "--format-only"], check=True, stdout=subprocess.DEVNULL)
            return
        ids = {node: base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode() for node in (0, *self.voters)}
        endpoints = {node: f"{self.host(node)}:{self.port_base + 99 + node}" for node in self.voters}
        voters = ",".join(f"{node}@{endpoints[node]}:{ids[node]}" for node in self.voters)
        for node in self.node_ids:
            config = self._config_path(node)
            config.parent.mkdir(parents=True)
            listeners = f"PLAINTEXT://{self.host(node)}:{self.port(node)}"
            is_voter = node in self.voters
            text = PROPERTIES.format(
                roles="broker,controller" if is_voter else "broker",
                node=node,
                controllers=",".join(endpoints.values()),
                listeners=f"{listeners},CONTROLLER://{endpoints[node]}" if is_voter else listeners,
                data=",".join(str(config.parent / name) for name in self.log_dirs),
                replicas=len(self.voters),
            )
            if self.system == "kafka":
                config.write_text(text)
                tool = [*_java("kafka.tools.StorageTool"), "format"]
            else:
                config.write_text(text + self.properties.format(admin_port=self._admin_port(node)))
                tool = [sys.executable, "-m", "ottla", "format"]
            command = [*tool, f"--cluster-id={ids[0]}", "--config", str(config)]
            if is_voter:
                command += ["--initial-controllers", voters]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def start(self, node: int) -> None:
        """Start the process, and wait for nothing."""
        if self.system == "ottla":
            command = [sys.executable, "-m", "ottla", "run", "--config", str(self._config_path(node))]
        elif self._is_run_from_jars:
            command = [*_java("kafka.Kafka", *either_system.JVM_OPTIONS.split()), str(self._config_path(node))]
        else:
            command = [*self._kafka_words(), "--node", str(node), "--foreground"]
        if self.network is not None:
            command = self.network.command(node, command)
        if node in self.clocks:
            command = self.clocks[node].command(command)
        with self.output_path(node).open("ab") as output:
            self.processes[node] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def kill(self, node: int) -> None:
        """End the process with SIGKILL."""
        process = self.processes.pop(node)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self, node: int) -> float:
        """Send SIGTERM, wait until the process has ended, and return the elapsed seconds."""
        process, started = self.processes.pop(node), time.perf_counter()
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            measure.progress(f"node {node} did not stop in {STOP_TIMEOUT_S} s, and is killed")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return time.perf_counter() - started

    def metrics(self, node: int) -> str:
        """Return the metrics page of a node that was started with `ADMIN_LISTENER`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._admin_port(node)}/metrics", timeout=30) as response:
            page: bytes = response.read()
        return page.decode()

    def _admin_port(self, node: int) -> int:
        return self.port_base + 199 + node

    def kill_all(self) -> None:
        for node in list(self.processes):
            self.kill(node)

    def cpu_s(self) -> float:
        """CPU time that the processes which run now have used."""
        return sum(measure.Node(process.pid).cpu_s() for process in self.processes.values())

    def rss_mib(self) -> float:
        return sum(measure.Node(process.pid).rss_mib() for process in self.processes.values())

    def create_topic(self, name: str, *, partitions: int, replicas: int, via: int | None = None) -> None:
        """Send CreateTopics to one node until the topic exists; the node forwards it to the active controller."""
        asked = next(iter(self.processes)) if via is None else via
        body = struct.pack(">i", 1) + frames.text(name) + struct.pack(">ihi", partitions, replicas, 0)
        minimum = struct.pack(">i", 1) + frames.text("min.insync.replicas") + frames.text(str(max(1, replicas - 1)))
        request = frames.frame(CREATE_TOPICS, 4, body + minimum + struct.pack(">i?", 30_000, False))

        def created() -> bool:
            response = self.ask(asked, request)
            error = struct.unpack_from(">h", response, 14 + len(name))[0] if response else -1
            return error in (0, TOPIC_ALREADY_EXISTS)

        wait_until(f"topic {name} is created", created, pause_s=0.005)

    def wait_until_every_node_serves(self) -> None:
        """Wait until every node that runs names them all, that is, until none of them is fenced."""
        request = frames.frame(frames.METADATA, 1, struct.pack(">i", 0))

        def serve() -> bool:
            responses = [self.ask(node, request) for node in self.processes]
            return all(
                response and struct.unpack_from(">i", response, 4)[0] == len(self.processes) for response in responses
            )

        wait_until("every node serves", serve, pause_s=0.01)

    def quorum_leader(self) -> int:
        """The active controller's id, from whichever node knows one."""
        topic = b"\x02" + bytes([len(METADATA_TOPIC) + 1]) + METADATA_TOPIC + b"\x02" + struct.pack(">i", 0) + bytes(3)
        head = struct.pack(">hhih", DESCRIBE_QUORUM, 0, 1, 5) + b"bench\x00"
        request = struct.pack(">i", len(head) + len(topic)) + head + topic
        leaders: list[int] = []

        def known() -> bool:
            for node in self.processes:
                response = self.ask(node, request)
                if response and struct.unpack_from(">h", response, 5)[0] == 0:
                    error, leader = struct.unpack_from(">hi", response, 5 + 2 + 1 + 1 + len(METADATA_TOPIC) + 1 + 4)
                    if error == 0 and leader in self.voters:
                        leaders.append(leader)
                        return True
            return False

        wait_until("the quorum has a leader", known)
        return leaders[0]

    def ask(self, node: int, request: bytes) -> bytes:
        """Exchange one request on a connection of its own; return nothing when the node does not respond."""
        with contextlib.suppress(OSError):
            connection = frames.connect((self.host(node), self.port(node)))
            with connection.socket:
                return bytes(connection.exchange(request))
        return b""

    @property
    def _is_run_from_jars(self) -> bool:
        return self.network is not None or len(self.log_dirs) > 1 or self.kafka_command is None

    def _config_path(self, node: int) -> Path:
        return self.directory / f"node-{node}" / "server.properties"

    def _kafka_words(self) -> list[str]:
        assert self.kafka_command is not None
        return shlex.split(self.kafka_command.format(dir=shlex.quote(str(self.directory)), port=self.port_base))


def _java(main_class: str, *options: str) -> list[str]:
    """Return the command that runs a class of JVM Kafka, with the heap of its own start script unless given."""
    return ["java", *options, "-cp", f"{os.environ['OTTLA_KAFKA_LIBS']}/*", main_class]


@dataclass(frozen=True)
class View:
    """The cluster's Metadata, through librdkafka."""

    admin: AdminClient

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Partition to (leader, in-sync replicas); empty without a response."""
        try:
            found = self.admin.list_topics(topic, timeout=5).topics[topic].partitions
        except KafkaException:
            return {}
        return {number: (partition.leader, sorted(partition.isrs)) for number, partition in found.items()}

    def wait_until_in_sync(self, topic: str, partitions: int, replicas: int) -> None:
        def in_sync() -> bool:
            now = self.partitions(topic)
            return len(now) == partitions and all(leader > 0 and len(isr) == replicas for leader, isr in now.values())

        wait_until(f"every replica of {topic} is in sync", in_sync)

    def wait_until_out_of_sync(self, node: int, topic: str) -> None:
        def is_out() -> bool:
            now = self.partitions(topic)
            return bool(now) and all(node not in isr for _, isr in now.values())

        wait_until(f"no replica of {topic} on node {node} is in sync", is_out)

    def spread_leaders(self, topic: str, partitions: int) -> None:
        """Give every partition its preferred leader again, and wait until every node leads some."""
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]

        def are_spread() -> bool:
            # Again and again: a node that has just started may leave its in-sync sets once more.
            self.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(30)
            return len({leader for leader, _ in self.partitions(topic).values()}) == len(NODE_IDS)

        wait_until(f"every node leads partitions of {topic}", are_spread, pause_s=0.2)

    def wait_until_led_without(self, node: int, topic: str) -> None:
        def led() -> bool:
            now = self.partitions(topic)
            return bool(now) and all(leader > 0 and leader != node for leader, _ in now.values())

        wait_until(f"no partition of {topic} is led by node {node}", led)


@contextmanager
def running(
    system: str,
    directory: Path,
    port_base: int,
    kafka_command: str | None,
    properties: str = "",
    prepare: Callable[[Cluster], AbstractContextManager[None]] = contextlib.nullcontext,
    network: sick_network.Network | None = None,
    *,
    size: int = 3,
    log_dirs: Sequence[str] = ("data",),
    on_start: Callable[[Cluster, int], None] | None = None,
) -> Iterator[tuple[Cluster, float]]:
    """Run a fresh cluster; give it, and the seconds until all serve and a topic of three replicas is created.

    ``properties`` are further lines for nodes of Ottla, such as `ADMIN_LISTENER`.
    ``on_start`` is called with the cluster and each node, once its process exists.
    ``prepare`` is entered when the nodes are formatted, and left when they have ended.
    """
    cluster = Cluster(
        system=system,
        directory=directory,
        port_base=port_base,
        kafka_command=kafka_command,
        properties=properties,
        network=network,
        size=size,
        log_dirs=log_dirs,
    )
    cluster.format()
    with prepare(cluster):
        started = time.perf_counter()
        try:
            for node in cluster.node_ids:
                cluster.start(node)
                if on_start is not None:
                    on_start(cluster, node)
            cluster.wait_until_every_node_serves()
            cluster.create_topic("first", partitions=1, replicas=len(cluster.voters))
            yield cluster, time.perf_counter() - started
        finally:
            cluster.kill_all()


def wait_until(what: str, holds: Callable[[], bool], pause_s: float = 0.05) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not so after {READY_TIMEOUT_S} s: {what}")
        time.sleep(pause_s)


def add_options(options: argparse.ArgumentParser, *, port_base: int) -> None:
    """Add the options of a benchmark that runs both systems."""
    options.add_argument("--only", choices=["ottla", "kafka"], help="measure one system, and write no results")
    options.add_argument("--port-base", type=int, default=port_base)
    options.add_argument("--kafka-command", default=os.environ.get("OTTLA_KAFKA_CLUSTER_COMMAND"))


def systems_of(arguments: argparse.Namespace, options: argparse.ArgumentParser) -> list[str]:
    """Return the systems to measure; exit with an error where one cannot be run."""
    systems = [arguments.only] if arguments.only else ["ottla", "kafka"]
    if arguments.kafka_command is None and "kafka" in systems:
        options.error("--kafka-command or OTTLA_KAFKA_CLUSTER_COMMAND must say how to run nodes of JVM Kafka")
    return systems
