"""Two nodes with the same authorization: ours and JVM Kafka's."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from jvm_kafka import kafka_libs
from permission_server import PASSWORDS, Server, eventually, is_listening
from tool_host import PROGRAM_FLAGS

from node_formatting import format_directories
from ottla.types import Endpoint

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule"
OURS, KAFKA = "ours", "kafka"


@dataclass(frozen=True)
class Locked:
    """A running node, its ports and the settings of clients to authenticate as ``admin``."""

    server: Server
    bootstrap: str
    client_properties: Path
    listeners: Mapping[str, str]
    """The addresses of further listeners, by name."""


class Starter:
    """Starts nodes, each in a directory of its own, and ends them."""

    def __init__(self, directory: Path, launch: Callable[..., Any], free_port: Callable[[], int], libs: Path) -> None:
        self._directory = directory
        self._launch = launch
        self._free_port = free_port
        self._libs = libs
        self._processes: list[subprocess.Popen[bytes]] = []
        self._servers: list[Server] = []

    def start(
        self,
        kind: str,
        host: str = "127.0.0.1",
        *,
        listeners: Mapping[str, str] = MappingProxyType({}),
        formatted: Sequence[str] = (),
        **settings: str,
    ) -> Locked:
        """Run one node that is both broker and controller; return when the topics of the catalog are there.

        Args:
            kind: OURS or KAFKA.
            host: where it listens.
            listeners: names of further listeners, and their security protocols; their settings are in ``settings``.
            formatted: arguments of `ottla format`, which formats for both kinds.
            settings: of its server.properties.
        """
        directory = self._directory / f"{kind}-{len(self._processes)}"
        directory.mkdir()
        ports = self._free_port(), self._free_port()
        more = {name: str(Endpoint(host, self._free_port())) for name in listeners}
        config = directory / "server.properties"
        lines = _properties(host, *ports, directory / "data") | settings
        for name, address in more.items():
            lines["listeners"] += f",{name}://{address}"
            lines["advertised.listeners"] += f",{name}://{address}"
            lines["listener.security.protocol.map"] += f",{name}:{listeners[name]}"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._format(config, formatted)
        self._processes.append(self._launch(self._command(kind, config), directory / "node.out"))
        eventually(lambda: all(is_listening(host, port) for port in ports))
        server = Server(host, *ports)
        self._servers.append(server)
        server.prepare()
        return Locked(server, str(Endpoint(host, ports[0])), _client_properties(directory), more)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        for process in self._processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _command(self, kind: str, config: Path) -> Sequence[str]:
        if kind == OURS:
            return [sys.executable, "-m", "ottla", "run", "-c", str(config)]
        return ["java", *PROGRAM_FLAGS, "-Xmx512m", "-cp", f"{self._libs}/*", "kafka.Kafka", str(config)]

    def _format(self, config: Path, more: Sequence[str]) -> None:
        format_directories(config, CLUSTER_ID, "--standalone", *more)


@pytest.fixture(scope="module")
def starter(
    tmp_path_factory: pytest.TempPathFactory, launch: Callable[..., Any], free_port: Callable[[], int]
) -> Iterator[Starter]:
    libs = kafka_libs()
    if shutil.which("java") is None:
        pytest.skip("no JVM on the path to run Kafka with")
    made = Starter(tmp_path_factory.mktemp("locked"), launch, free_port, libs)
    yield made
    made.close()


@pytest.fixture(scope="module")
def locked(starter: Starter) -> dict[str, Locked]:
    """Return both nodes, by kind; users without an entry are denied everything."""
    return {kind: starter.start(kind) for kind in (KAFKA, OURS)}


@pytest.fixture(scope="module")
def lenient(starter: Starter) -> dict[str, Locked]:
    """Return both nodes, by kind; resources without an entry are open to every client."""
    settings = {"allow.everyone.if.no.acl.found": "true"}
    return {kind: starter.start(kind, **settings) for kind in (KAFKA, OURS)}


def _properties(host: str, broker_port: int, controller_port: int, data: Path) -> dict[str, str]:
    controller = str(Endpoint(host, controller_port))
    listeners = f"CLIENT://{Endpoint(host, broker_port)},CONTROLLER://{controller}"
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    jaas = f'{JAAS} required username="admin" password="{PASSWORDS["admin"]}" {users};'
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "delegation.token.secret.key": "secret",
        # Of ours only: Kafka serves requests about client metrics without a receiver, too.
        "ottla.client.metrics.receivers": "log",
        "log.dirs": str(data),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
    }


def _client_properties(directory: Path) -> Path:
    made = directory / "client.properties"
    made.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={JAAS} required username="admin" password="{PASSWORDS["admin"]}";\n'
    )
    return made
