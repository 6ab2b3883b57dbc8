"""Nodes as processes of the local host: ``python -m ottla run`` for each, below a state directory.

Per node, in ``nodes/<name>/``: ``server.properties``, ``data/`` (its log directory), ``node.log`` (its output) and,
while it runs, ``process.json`` (process id, its start time, and the revision that it was started with).

Node ``n`` of a cluster listens at ``port + 10 n`` for clients of the first listener, and at the ports above for
controllers, for HTTP, for other nodes (with TLS), and for clients of the other listeners; ``port`` is the annotation
``ottla.dev/local-port`` of the Cluster, 9092 when absent. Certificates are in ``secrets/<cluster>-nodes/``.
"""

import asyncio
import json
import socket
import sys
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla_operator.adapters.kafka.operator_access import operator_access
from ottla_operator.adapters.kafka.presented_certificates import with_certificates
from ottla_operator.adapters.local import http_probe, processes
from ottla_operator.adapters.local.secret_store import LocalSecrets
from ottla_operator.adapters.local.state_directory import StateDirectory, write_in_one_step
from ottla_operator.errors import HostError
from ottla_operator.model.cluster_secrets import CLIENT_PROPERTIES, nodes_secret, operator_secret
from ottla_operator.model.listeners import Listener
from ottla_operator.model.manifest import Cluster, Pool
from ottla_operator.model.node_listeners import Place
from ottla_operator.model.nodes import DesiredCluster, DesiredNode, desired_cluster
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess
from ottla_operator.ports.volume_claims import ObservedClaim

PORT_ANNOTATION = "ottla.dev/local-port"
DEFAULT_PORT = 9092

_HOST = "localhost"
_CERTIFICATE_NAMES = (_HOST, "127.0.0.1", "::1")
_PORT_MAX = 65_535
_PORTS_PER_NODE = 10
_NODE_IDS_MAX = (_PORT_MAX - 1) // _PORTS_PER_NODE
_ALIVE_TIMEOUT_S = 30.0
_PROBE_TIMEOUT_S = 2.0
_STOP_GRACE_S = 30.0
_POLL_S = 0.02
_LOG_LINES = 5


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """The contents of ``process.json``."""

    pid: int
    born: str
    revision: str
    admin_port: int
    parts: str = ""

    @property
    def is_running(self) -> bool:
        return processes.is_running(self.pid, self.born)


class LocalHost:
    """The `Host` port over child processes; ``program`` is the command line of the ottla command."""

    def __init__(self, directory: StateDirectory, program: Sequence[str] = (sys.executable, "-m", "ottla")) -> None:
        self._directory = directory
        self._program = tuple(program)
        self._secret_store = LocalSecrets(directory)
        self._started: set[str] = set()

    async def desired(self, cluster: Cluster, leaving: Collection[str] = ()) -> DesiredCluster:
        port = _base_port(cluster)

        def place(pool: Pool, ordinal: int, node_id: int) -> Place:
            first = port + node_id * _PORTS_PER_NODE
            return Place(
                listen_host=_HOST,
                client_host=_HOST,
                client_port=first,
                controller_port=first + 1,
                admin_port=first + 2,
                nodes_port=0 if cluster.tls is None else first + 3,
                further_client_ports=tuple(range(first + 4, first + 3 + len(cluster.listeners))),
                tls_directory=self._secret_store.location(nodes_secret(cluster.name)),
                log_directory=str(self.node_directory(f"{cluster.name}-{pool.name}-{ordinal}") / "data"),
            )

        return desired_cluster(cluster, place, leaving=leaving)

    def bootstrap_servers(self, desired: DesiredCluster, listener: Listener) -> str:
        index = desired.cluster.listeners.index(listener)
        return desired.addresses(lambda place: place.client_ports[index])

    def nodes_servers(self, desired: DesiredCluster) -> str:
        return desired.addresses(lambda place: place.nodes_port)

    async def operator_access(self, desired: DesiredCluster) -> OperatorAccess:
        return await operator_access(self, desired, self._secret_store)

    def command_config(self, cluster: Cluster) -> Path:
        """Return the file with the operator's client properties, of a cluster with TLS."""
        return Path(self._secret_store.location(operator_secret(cluster.name))).absolute() / CLIENT_PROPERTIES

    def certificate_names(self, desired: DesiredCluster) -> tuple[str, ...]:
        return _CERTIFICATE_NAMES

    async def observe(self, desired: DesiredCluster) -> ObservedCluster:
        prefix = f"{desired.cluster.name}-"
        names = [name for name in self._directory.node_names() if name.startswith(prefix) and self._is_known(name)]
        # Concurrently: a node that hangs costs a time-out.
        seen = await asyncio.gather(*map(self._observe_node, names))
        return ObservedCluster(
            outdated=tuple(_published_name(node) for node in desired.nodes if not self._is_published(node)),
            nodes=await with_certificates(dict(zip(names, seen, strict=True)), desired, self._secret_store),
        )

    async def publish(self, desired: DesiredCluster, outdated: Sequence[str]) -> None:
        chosen = [node for node in desired.nodes if _published_name(node) in outdated]
        formatting = (self._publish_node(node, desired.cluster.cluster_id) for node in chosen)
        results = await asyncio.gather(*formatting, return_exceptions=True)
        # Wait for all before a failure is raised: a retry must not run next to a former one.
        if (failed := next((it for it in results if it is not None), None)) is not None:
            raise failed

    async def _publish_node(self, node: DesiredNode, cluster_id: str) -> None:
        directory = self.node_directory(node.name)
        directory.mkdir(parents=True, exist_ok=True)
        candidate = directory / "server.properties.new"
        write_in_one_step(candidate, node.properties)
        # Formatting validates the whole configuration: a rejected one is never published.
        await self._format(candidate, cluster_id, node.format_arguments)
        candidate.replace(directory / "server.properties")

    async def start_node(self, node: DesiredNode) -> None:
        """Start the process and return when its HTTP port responds; readiness comes later.

        Raises:
            HostError: a port is in use, or the process ended (again); the message has its last output.
        """
        if node.name in self._started:
            raise HostError("NodeExited", self._last_output(node.name))
        place = node.place
        for port in (*place.client_ports, place.controller_port, place.admin_port, place.nodes_port):
            if port:
                _require_free(port)
        directory = self.node_directory(node.name)
        arguments = [*self._program, "run", "--config", str(directory / "server.properties")]
        pid = processes.spawn(arguments, log=directory / "node.log")
        self._started.add(node.name)
        process = NodeProcess(pid, processes.birth(pid), node.revision, place.admin_port, node.parts)
        write_in_one_step(directory / "process.json", json.dumps(asdict(process)))
        await self._wait_until_alive(node.name, process)

    async def restart_node(self, node: DesiredNode, uid: str) -> None:
        # Only this host runs nodes here: the running process is the observed one.
        await self.stop_node(node.name)
        self._started.discard(node.name)
        await self.start_node(node)

    async def limit_disruptions(self, desired: DesiredCluster, allowed: int) -> None:
        raise HostError("Unsupported", "a local host has no disruption budget")

    async def remove_node(self, name: str, uid: str) -> None:
        await self.stop_node(name)
        # Last of all: until then the next command observes the node, and stops it.
        (self.node_directory(name) / "server.properties").unlink(missing_ok=True)

    async def remove_volumes(self, claims: Sequence[ObservedClaim]) -> None:
        raise HostError("Unsupported", "a local host never removes data of nodes")

    async def stop_node(self, name: str) -> None:
        """Stop the node cleanly; it is started again if the spec has it."""
        process = self.process(name)
        if process is not None:
            await processes.stop(process.pid, process.born, grace_s=_STOP_GRACE_S)
        (self.node_directory(name) / "process.json").unlink(missing_ok=True)

    def process(self, name: str) -> NodeProcess | None:
        """Return the process that was started for this node, running or not; None after a clean stop."""
        path = self.node_directory(name) / "process.json"
        try:
            return NodeProcess(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise HostError("StateDamaged", f"{path} is corrupt ({error}); stop the node and remove it") from error

    def node_directory(self, name: str) -> Path:
        return self._directory.node_directory(name)

    async def _observe_node(self, name: str) -> ObservedNode:
        process = self.process(name)
        if process is None or not process.is_running:
            return ObservedNode(name=name, state=NodeState.STOPPED)
        response = await http_probe.get(_HOST, process.admin_port, "/readyz", timeout_s=_PROBE_TIMEOUT_S)
        if response.is_good:
            return ObservedNode(name=name, state=NodeState.READY, revision=process.revision, parts=process.parts)
        return ObservedNode(
            name=name,
            state=NodeState.UNREADY if _may_have_served(response) else NodeState.STARTING,
            revision=process.revision,
            parts=process.parts,
            reason="NodeNotReady",
            message=_why_not_ready(response),
        )

    def _is_known(self, name: str) -> bool:
        return (self.node_directory(name) / "server.properties").is_file()

    def _is_published(self, node: DesiredNode) -> bool:
        directory = self.node_directory(node.name)
        try:
            text = (directory / "server.properties").read_text(encoding="utf-8")
        except FileNotFoundError:
            return False
        return text == node.properties and (directory / "data" / "meta.properties").is_file()

    async def _format(self, configuration: Path, cluster_id: str, arguments: Sequence[str]) -> None:
        code, output = await processes.run(
            [*self._program, "format", "-t", cluster_id, "-c", str(configuration), "--ignore-formatted", *arguments]
        )
        if code != 0:
            raise HostError("FormatFailed", output.strip() or f"exit code {code}")

    async def _wait_until_alive(self, name: str, process: NodeProcess) -> None:
        deadline = asyncio.get_running_loop().time() + _ALIVE_TIMEOUT_S
        while asyncio.get_running_loop().time() < deadline:
            if not process.is_running:
                raise HostError("NodeExited", self._last_output(name))
            response = await http_probe.get(_HOST, process.admin_port, "/healthz", timeout_s=_PROBE_TIMEOUT_S)
            if response.status:
                return
            await asyncio.sleep(_POLL_S)
        raise HostError("NodeSilent", f"node {name} does not respond; log: {self.node_directory(name) / 'node.log'}")

    def _last_output(self, name: str) -> str:
        path = self.node_directory(name) / "node.log"
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                lines = [line.rstrip() for line in deque(file, maxlen=_LOG_LINES)]
        except FileNotFoundError:
            lines = []
        return f"node {name} ended: {' | '.join(lines) or 'no output'} (log: {path})"


def _may_have_served(response: http_probe.ProbeResponse) -> bool:
    """Tell whether a node that is not ready was ready before, by its /readyz; a node that hangs may have been."""
    if not response.status:
        return True
    try:
        return bool(json.loads(response.body)["hasServed"])
    except (ValueError, KeyError, TypeError):
        return False


def _why_not_ready(response: http_probe.ProbeResponse) -> str:
    """Return the node's own reasons, from its /readyz."""
    if not response.status:
        return "it does not respond yet"
    try:
        reasons = json.loads(response.body)["reasons"]
        return "; ".join(map(str, reasons)) or response.body
    except (ValueError, KeyError, TypeError):
        return response.body.strip() or f"HTTP status {response.status}"


def _published_name(node: DesiredNode) -> str:
    return f"server.properties of {node.name}"


def _base_port(cluster: Cluster) -> int:
    text = cluster.annotations.get(PORT_ANNOTATION, str(DEFAULT_PORT))
    ids = max(pool.first_node_id + pool.nodes for pool in cluster.pools)
    if ids > _NODE_IDS_MAX:
        message = (
            f"the node ids go up to {ids - 1}; on a local host they go up to {_NODE_IDS_MAX - 1}, as each needs ports"
        )
        raise HostError("InvalidPort", f"{message}; delete this Cluster and create one with lower firstNodeIds")
    highest = _PORT_MAX - ids * _PORTS_PER_NODE
    if not text.isdecimal() or not 1 <= int(text) <= highest:
        raise HostError("InvalidPort", f"annotation {PORT_ANNOTATION} is {text!r}; it must be 1 to {highest}")
    return int(text)


def _require_free(port: int) -> None:
    """Raise `HostError` if ``port`` is in use."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise HostError(
                "PortInUse", f"port {port} is taken by another program; choose another with --port"
            ) from error
