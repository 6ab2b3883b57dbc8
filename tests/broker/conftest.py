"""Fixtures for several folders of broker tests: requests to handlers, a group coordinator in memory, node processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from group_node import GroupNode, serve
from memory_coordinator_log import MemoryCoordinatorLog
from node_formatting import format_directories
from ottla.purgatory import Delayed
from ottla.simulator.world.single_node import RunningNode, World


@pytest.fixture(name="serve", scope="session")
def serve_fixture() -> Callable[..., Delayed[Any]]:
    """`serve`: ``serve(services, request, version)``."""
    return serve


@pytest.fixture
def new_group_node() -> Callable[..., GroupNode]:
    """Return the class: ``new_group_node(config=..., topics=...)``."""
    return GroupNode


@pytest.fixture
def coordinator_log() -> MemoryCoordinatorLog:
    """An empty log of a coordinator's internal topic."""
    return MemoryCoordinatorLog()


@pytest.fixture
def group_node() -> GroupNode:
    """A node that leads all four partitions of __consumer_offsets; topics t (3 partitions) and u (1)."""
    return GroupNode()


@pytest.fixture
def world() -> World:
    """A formatted disk in memory, a clock and a random source."""
    return World()


@pytest.fixture
def running(world: World) -> RunningNode:
    """A node that serves, in memory."""
    return world.start_node()


START_TIMEOUT_S = 60
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"


@dataclass(kw_only=True)
class NodeProcess:
    """A node that runs in a process of its own; ``folder`` has its server.properties, data and log."""

    folder: Path
    launch: Callable[[Sequence[str], Path], subprocess.Popen[bytes]]
    log_level: str = "info"
    process: subprocess.Popen[bytes] | None = None

    def log_text(self) -> str:
        return (self.folder / "node.out").read_text(errors="replace")

    def start(self) -> None:
        """Start it and return when it is ready."""
        ready = 0 if self.process is None else self.log_text().count("is ready")
        config = str(self.folder / "server.properties")
        command = [sys.executable, "-m", "ottla", "run", "--config", config, "--log-level", self.log_level]
        self.process = self.launch(command, self.folder / "node.out")
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.log_text().count("is ready") == ready:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                pytest.fail(f"the node did not start:\n{self.log_text()[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stop it cleanly."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(START_TIMEOUT_S) == 0, self.log_text()[-4000:]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(START_TIMEOUT_S)


@pytest.fixture(scope="module")
def run_node(
    tmp_path_factory: pytest.TempPathFactory, launch: Callable[[Sequence[str], Path], subprocess.Popen[bytes]]
) -> Iterator[Callable[..., NodeProcess]]:
    """Return a function that formats and starts a node with these properties; it is killed after the module's tests."""
    started: list[NodeProcess] = []

    def run(
        properties: Mapping[str, str], *, formatted: Sequence[str] = ("--standalone",), log_level: str = "info"
    ) -> NodeProcess:
        folder = tmp_path_factory.mktemp("node")
        config = folder / "server.properties"
        said = {"log.dirs": str(folder / "data"), **properties}
        config.write_text("".join(f"{key}={text}\n" for key, text in said.items()))
        format_directories(config, CLUSTER_ID, *formatted)
        node = NodeProcess(folder=folder, launch=launch, log_level=log_level)
        started.append(node)
        node.start()
        return node

    yield run
    for node in started:
        node.kill()


@pytest.fixture(scope="session")
def listener_properties(free_port: Callable[[], int], authority: Any) -> Callable[..., dict[str, str]]:
    """Return ``listener_properties(folder, protocols, ports, certificates)``: settings of one node.

    ``protocols`` and ``ports`` are by listener name. ``certificates`` are written to ``folder`` as PEM files, and so is
    the authority (ca.pem): `node` is for every listener without a certificate of its own name.
    """

    def properties(
        folder: Path, protocols: Mapping[str, str], ports: Mapping[str, int], certificates: Mapping[str, Any]
    ) -> dict[str, str]:
        controller = f"127.0.0.1:{free_port()}"
        (folder / "ca.pem").write_text(authority.pem)
        for name, issued in certificates.items():
            (folder / f"{name}.pem").write_text(issued.both)
        addresses = [f"{name}://127.0.0.1:{ports[name]}" for name in protocols]
        protocol_map = [f"{name}:{protocol}" for name, protocol in protocols.items()]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join([*addresses, f"CONTROLLER://{controller}"]),
            "listener.security.protocol.map": ",".join([*protocol_map, "CONTROLLER:PLAINTEXT"]),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": controller,
            "inter.broker.listener.name": "OPEN",
            "offsets.topic.replication.factor": "1",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(folder / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(folder / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            **{
                f"listener.name.{name}.ssl.keystore.location": str(folder / f"{name}.pem")
                for name in certificates
                if name.upper() in protocols
            },
        }

    return properties
