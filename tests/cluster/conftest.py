"""A cluster of real `ottla run` processes on 127.0.0.1, and librdkafka clients that keep a ledger."""

import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from benchmarks import sick_network
from cluster_ledger import QUIET, Ledger, read_all
from confluent_kafka import ElectionType, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from node_formatting import format_directories
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import format_uuid

HERE = Path(__file__).parent
HOST = "127.0.0.1"
START_TIMEOUT_S = 60
REPORTED_LINES_MAX = 12
"""Of the log of each node after a failure: warnings and errors, and lines of any level."""
Launch = Callable[[Sequence[str], Path], "subprocess.Popen[bytes]"]

_clusters = pytest.StashKey["list[ProcessCluster]"]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what its nodes have logged last, and their last warnings."""
    report = yield
    if report.failed:
        nodes = [node for cluster in item.stash.get(_clusters, ()) for node in cluster.nodes.values()]
        report.sections += [(f"Log of node {node.node_id}", node.last_log_lines()) for node in nodes]
    return report


@dataclass(kw_only=True)
class Process:
    """One node: its configuration, its directory, and the process while it runs."""

    node_id: int
    roles: str
    directory: Path
    client_port: int
    controller_port: int
    directory_id: str
    launch: Launch
    host: str = HOST
    process: subprocess.Popen[bytes] | None = None

    @property
    def config_path(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_path(self) -> Path:
        return self.directory / "node.log"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.client_port}"

    @property
    def voter(self) -> str:
        return f"{self.node_id}@{self.host}:{self.controller_port}:{self.directory_id}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def last_log_lines(self) -> str:
        lines = self.log_text().splitlines()
        earlier, last = lines[:-REPORTED_LINES_MAX], lines[-REPORTED_LINES_MAX:]
        serious = [line for line in earlier if " WARNING " in line or " ERROR " in line]
        return "\n".join([*serious[-REPORTED_LINES_MAX:], *last])

    def start(self) -> None:
        assert not self.is_running
        command = [sys.executable, "-m", "ottla", "run", "--config", str(self.config_path)]
        self.process = self.launch(command, self.log_path)

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self, timeout_s: float = START_TIMEOUT_S) -> int:
        """Stop in order; return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)


@dataclass(kw_only=True)
class ProcessCluster:
    """Several nodes; see the module."""

    nodes: dict[int, Process]
    cluster_id: str
    free_port: Callable[[], int]
    client: dict[str, str] = field(default_factory=dict)
    """How clients log in."""
    scram: tuple[str, ...] = ()
    """Credentials that the cluster begins with."""
    others: list[Process] = field(default_factory=list)
    _admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values() if "broker" in node.roles)

    def start(self) -> None:
        """Start every node that does not run, and wait until all serve."""
        marks = {node.node_id: len(node.log_text()) for node in self.nodes.values() if not node.is_running}
        for node_id in marks:
            self.nodes[node_id].start()
        for node_id, mark in marks.items():
            self.wait_ready(node_id, mark)
        self.wait_known()

    def wait_known(self) -> None:
        """Wait until every broker knows all: librdkafka drops requests to brokers that a later Metadata lacks."""
        brokers = self._running_brokers()
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in brokers:
            while len(self._admin_of(node.address).list_topics(timeout=30).brokers) < len(brokers):
                assert time.monotonic() < deadline, f"node {node.node_id} does not know every broker"

    def _running_brokers(self) -> list[Process]:
        return [node for node in self.nodes.values() if node.is_running and "broker" in node.roles]

    def restart(self, node_id: int) -> None:
        """Start one node again and wait until it serves."""
        mark = len(self.nodes[node_id].log_text())
        self.nodes[node_id].start()
        self.wait_ready(node_id, mark)

    def add_twin(self, node: Process, directory: Path) -> Process:
        """Format a second node with the same id, in ``directory``, on ports of its own."""
        twin = replace(node, directory=directory, client_port=self.free_port(), process=None)
        config = node.config_path.read_text().replace(str(node.directory), str(directory))
        twin.config_path.write_text(config.replace(str(node.client_port), str(twin.client_port)))
        format_node(self, twin)
        self.others.append(twin)
        return twin

    def wait_ready(self, node_id: int, mark: int = 0) -> None:
        self.wait_line(self.nodes[node_id], f"node {node_id} is ready", mark)

    def wait_line(self, node: Process, text: str, mark: int = 0) -> None:
        """Wait until the node has logged ``text``, beyond the first ``mark`` characters of its log."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while text not in node.log_text()[mark:]:
            if not node.is_running or time.monotonic() > deadline:
                pytest.fail(f"node {node.node_id} did not say {text!r}:\n{node.log_text()[-4000:]}")
            time.sleep(0.02)

    def close(self) -> None:
        self._admin = None
        for node in [*self.nodes.values(), *self.others]:
            if node.is_running:
                node.signal(signal.SIGCONT)
                node.signal(signal.SIGKILL)
                node.wait()

    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = self._admin_of(self.bootstrap)
        return self._admin

    def _admin_of(self, bootstrap: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": bootstrap, **QUIET, **self.client})

    def create_topic(self, name: str, *, partitions: int = 1, replicas: int = 3, **config: str) -> None:
        topic = NewTopic(
            name, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()}
        )
        self.admin().create_topics([topic])[name].result(30)
        self._wait_topic(name, partitions)

    def _wait_topic(self, name: str, partitions: int) -> None:
        """Wait until each node that runs knows the leaders of a new topic: librdkafka asks any node."""
        deadline = time.monotonic() + START_TIMEOUT_S
        for node in self._running_brokers():
            while sum(leader >= 0 for leader in self._leaders_known_to(node, name).values()) < partitions:
                assert time.monotonic() < deadline, f"node {node.node_id} does not know every leader of {name}"
                time.sleep(0.02)

    def _leaders_known_to(self, node: Process, topic: str) -> dict[int, int]:
        known = self._admin_of(node.address).list_topics(topic, timeout=30).topics[topic]
        return {index: partition.leader for index, partition in known.partitions.items()}

    def leaders(self, topic: str) -> dict[int, int]:
        return {index: partition.leader for index, partition in self._partitions(topic).items()}

    def in_sync(self, topic: str) -> list[list[int]]:
        return [sorted(partition.isrs) for _, partition in sorted(self._partitions(topic).items())]

    def _partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        return self.admin().list_topics(topic, timeout=30).topics[topic].partitions

    def wait_in_sync(self, topic: str) -> None:
        """Wait until every partition has three replicas in sync, as any node knows it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while any(len(isr) < 3 for isr in self.in_sync(topic)):
            assert time.monotonic() < deadline, f"not in sync again: {self.in_sync(topic)}"
            time.sleep(0.1)

    def spread_leaders(self, topic: str, *, via: int) -> dict[int, int]:
        """Let the preferred leaders lead again, once all can, and return them by partition; ``via`` is asked to.

        Other nodes than ``via`` may know the former leaders for a moment longer.
        """
        admin = self._admin_of(self.nodes[via].address)
        preferred = {index: partition.replicas[0] for index, partition in self._partitions(topic).items()}
        partitions = [TopicPartition(topic, index) for index in preferred]
        needless = (None, KafkaError.ELECTION_NOT_NEEDED)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            errors = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
            if all(error is None or error.code() in needless for error in errors.values()):
                return preferred
            assert time.monotonic() < deadline, errors
            time.sleep(0.1)

    def ledger(self, topic: str, *, per_second: int = 200, **config: str) -> Ledger:
        return Ledger(self.bootstrap, topic, per_second=per_second, **self.client, **config)

    def read_all(self, topic: str, partitions: int) -> list[int]:
        """Return the numbers in every partition of ``topic`` up to its end."""
        return read_all(self.bootstrap, topic, partitions, client=self.client)

    def active_controller(self) -> int:
        """Return the node that last logged that it is the active controller."""
        newest = max(
            (line.split()[0], node.node_id)
            for node in self.nodes.values()
            for line in node.log_text().splitlines()
            if f"node {node.node_id} is the active controller" in line
        )
        return newest[1]


@pytest.fixture
def new_cluster(
    request: pytest.FixtureRequest, tmp_path: Path, free_port: Callable[[], int], launch: Launch
) -> Iterator[Callable[..., ProcessCluster]]:
    """Return a function that formats a cluster; ``start()`` starts it. Everything ends with the test."""
    made = request.node.stash[_clusters] = []

    def make(
        *roles: str,
        static_voters: bool = False,
        client: dict[str, str] | None = None,
        scram: tuple[str, ...] = (),
        network: sick_network.Network | None = None,
        **overrides: str,
    ) -> ProcessCluster:
        home = tmp_path / f"cluster-{len(made)}"
        cluster = _make_cluster(home, roles, overrides, free_port, launch, static_voters=static_voters, network=network)
        cluster.client, cluster.scram = client or {}, scram
        made.append(cluster)
        for node in cluster.nodes.values():
            format_node(cluster, node, static_voters=static_voters)
        return cluster

    yield make
    for cluster in made:
        cluster.close()


def _make_cluster(
    directory: Path,
    roles: tuple[str, ...],
    overrides: dict[str, str],
    free_port: Callable[[], int],
    launch: Launch,
    *,
    static_voters: bool = False,
    network: sick_network.Network | None = None,
) -> ProcessCluster:
    random = SeededRandom(secrets.randbelow(2**32))
    nodes = {}
    for node_id, role in enumerate(roles or ("broker,controller",) * 3, 1):
        home = directory / f"node-{node_id}"
        home.mkdir(parents=True)
        nodes[node_id] = Process(
            node_id=node_id,
            roles=role,
            directory=home,
            client_port=free_port(),
            controller_port=free_port(),
            directory_id=format_uuid(random.uuid()),
            launch=launch if network is None else _on_host(network, node_id, launch),
            host=HOST if network is None else network.address(node_id),
        )
    cluster = ProcessCluster(nodes=nodes, cluster_id=format_uuid(random.uuid()), free_port=free_port)
    controllers = [node for node in nodes.values() if "controller" in node.roles]
    if static_voters:
        quorum = {
            "controller.quorum.voters": ",".join(f"{it.node_id}@{it.host}:{it.controller_port}" for it in controllers)
        }
    else:
        quorum = {
            "controller.quorum.bootstrap.servers": ",".join(f"{it.host}:{it.controller_port}" for it in controllers)
        }
    for node in nodes.values():
        write_config(node, quorum, overrides)
    return cluster


def _on_host(network: sick_network.Network, host: int, launch: Launch) -> Launch:
    return lambda command, output: launch(network.command(host, command), output)


def write_config(node: Process, quorum: dict[str, str], overrides: dict[str, str]) -> None:
    listeners = []
    if "broker" in node.roles:
        listeners.append(f"PLAINTEXT://{node.host}:{node.client_port}")
    if "controller" in node.roles:
        listeners.append(f"CONTROLLER://{node.host}:{node.controller_port}")
    properties = {
        "process.roles": node.roles,
        "node.id": str(node.node_id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        **quorum,
        "log.dirs": str(node.directory / "data"),
        "offsets.topic.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        **{key.replace("_", "."): value.replace("{home}", str(node.directory)) for key, value in overrides.items()},
    }
    node.config_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


def format_node(cluster: ProcessCluster, node: Process, *, static_voters: bool = False) -> None:
    """Run `ottla format`; controllers know the first voters, unless their configuration names them."""
    voters = ",".join(each.voter for each in cluster.nodes.values() if "controller" in each.roles)
    arguments = ["--initial-controllers", voters] if "controller" in node.roles and not static_voters else []
    for credential in cluster.scram:
        arguments += ["--add-scram", credential]
    format_directories(node.config_path, cluster.cluster_id, *arguments)
