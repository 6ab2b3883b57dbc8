"""Apply, get and delete manifests, and run a cluster, on the local host: the interface of the command line.

The same documents as on Kubernetes go through the same schemas, planners and executor; a state directory stands in
for the API server, and child processes for pods. One state directory holds at most one cluster, so every
``clusterRef`` in it means that one, whatever its name; with an explicit ``bootstrap`` it means the brokers there.

Terms: *outcome*: the typed result of a command for one object (`outcome`); *session*: one command on one state
directory (`session`); *stamped*: with uid, generation and creation time, as the API server adds them (`manifests`).

Invariants: one command at a time changes a state directory, under its lock; a rejected manifest is not stored; a dry
run changes and stores nothing. These functions block (inside an event loop, run them in a thread), and none of them
prints.

Start with `apply`, then `session.Session`.

Surprising: ``get`` reconciles with a dry run, so that the status is current. While authorities are replaced, ``apply``
reconciles Users as well, because no other process brings them the new trust.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla_operator.adapters.kafka import ottla_admin
from ottla_operator.adapters.local.host import DEFAULT_PORT, PORT_ANNOTATION, LocalHost
from ottla_operator.adapters.local.state_directory import StateDirectory
from ottla_operator.controllers.error_results import EXPECTED_ERRORS
from ottla_operator.local.manifests import canonical_kind, cluster_manifest, desired_by_user, read_manifests, with_nodes
from ottla_operator.local.outcome import Action, ClusterStatus, ExitCode, NodeStatus, Outcome
from ottla_operator.local.session import Session
from ottla_operator.model.document import Document
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.schema import identity
from ottla_operator.planning.cluster.draining import leaving_nodes
from ottla_operator.ports.broker_admin import Connect
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster
from ottla_operator.ports.operator_access import OperatorAccess

__all__ = [
    "DEFAULT_CLUSTER_NAME",
    "DEFAULT_PORT",
    "DEFAULT_TIMEOUT_S",
    "Action",
    "ClusterStatus",
    "ExitCode",
    "NodeStatus",
    "Outcome",
    "apply",
    "canonical_kind",
    "delete",
    "down",
    "get",
    "identity",
    "read_manifests",
    "status",
    "up",
]

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_CLUSTER_NAME = "ottla"

_CALL_S_MIN = 2.0
"""Minimum time limit of a call: with a time-out of 0, brokers that run shall still be able to respond."""


def apply(
    documents: Sequence[Document],
    *,
    state_dir: Path,
    bootstrap: str | None = None,
    properties: Mapping[str, str] | None = None,
    dry_run: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    connect: Connect | None = None,
) -> list[Outcome]:
    """Apply each manifest; Clusters first, otherwise in the given order.

    Args:
        documents: parsed manifests (`read_manifests`).
        state_dir: holds the objects, and the nodes of a Cluster.
        bootstrap: ``host:port[,host:port]`` of the brokers for Topics and Users; None: of the local cluster.
        properties: client properties, as in Java clients, for connections to ``bootstrap``.
        dry_run: only validate and plan; nothing is changed and nothing is stored.
        timeout_s: how long, per object, to wait for a state that needs no change of its manifest.
        connect: connects to brokers; by default over Kafka's protocol.

    Returns:
        One outcome per document; a rejection does not stop the others from being applied.
    """
    directory = StateDirectory(state_dir)
    session = _session(directory, bootstrap, properties, connect, timeout_s)
    ordered = sorted(documents, key=lambda document: document.get("kind") != "Cluster")

    async def run() -> list[Outcome]:
        return [await session.apply(document, dry_run=dry_run) for document in ordered]

    if dry_run:
        return asyncio.run(run())
    with directory.locked():
        return asyncio.run(run())


def get(
    kind: str,
    name: str | None = None,
    *,
    state_dir: Path,
    bootstrap: str | None = None,
    properties: Mapping[str, str] | None = None,
    connect: Connect | None = None,
) -> list[Document]:
    """Return stored objects in the form of kubectl, sorted by name, each with its present status.

    Args:
        kind: in any form that kubectl accepts: ``Topic``, ``topic``, ``topics``, ``ot``.
        name: one object, and the list is empty if it is missing; None: all of the kind.
        state_dir: as in `apply`, as are ``bootstrap`` and ``connect``.
        bootstrap: if these brokers do not respond, the status says so.
        properties: as in `apply`.
        connect: as in `apply`.

    Raises:
        OperatorError: the kind is unknown.
    """
    directory = StateDirectory(state_dir)
    session = _session(directory, bootstrap, properties, connect, timeout_s=0)
    found = directory.objects(canonical_kind(kind))

    async def run() -> list[Document]:
        return [await session.refresh(it) for it in found if name in (None, it["metadata"]["name"])]

    return asyncio.run(run())


def delete(
    kind: str,
    name: str,
    *,
    state_dir: Path,
    bootstrap: str | None = None,
    properties: Mapping[str, str] | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    connect: Connect | None = None,
) -> Outcome:
    """Execute an object's deletionPolicy and delete it. A Cluster's nodes are stopped; their data stays.

    Raises:
        OperatorError: the kind is unknown.
    """
    canonical = canonical_kind(kind)
    directory = StateDirectory(state_dir)
    session = _session(directory, bootstrap, properties, connect, timeout_s)
    with directory.locked():
        return asyncio.run(session.delete(canonical, name))


def up(
    *,
    state_dir: Path,
    brokers: int | None = None,
    controllers: int | None = None,
    port: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    connect: Connect | None = None,
) -> Outcome:
    """Start the cluster of ``state_dir``; ``unchanged`` if it runs so already.

    Args:
        state_dir: the state directory.
        brokers: number of brokers; None: as before, or 1. The first three, or the only one, are controllers, too.
        controllers: number of nodes that are only controllers; None: as before, or none.
        port: of the first node's listener for clients; None: as before, or 9092.
        timeout_s: how long to wait until it is ready.
        connect: as in `apply`.

    Returns:
        On success, ``outcome.manifest["status"]["bootstrapServers"]`` is the bootstrap address.

    Raises:
        ManifestError: the cluster has other pools, which only its manifest can change.
    """
    stored = StateDirectory(state_dir).objects("Cluster")
    document = desired_by_user(stored[0]) if stored else cluster_manifest(DEFAULT_CLUSTER_NAME)
    if brokers is not None or controllers is not None:
        document = with_nodes(document, brokers, controllers)
    if port is not None:
        document["metadata"].setdefault("annotations", {})[PORT_ANNOTATION] = str(port)
    return apply([document], state_dir=state_dir, timeout_s=timeout_s, connect=connect)[0]


def down(*, state_dir: Path) -> list[str]:
    """Stop every node of ``state_dir`` cleanly; return the names of those that ran. Data and objects stay."""
    directory = StateDirectory(state_dir)
    host = LocalHost(directory)

    async def run() -> list[str]:
        names = directory.node_names()
        running = [name for name in names if (process := host.process(name)) and process.is_running]
        await asyncio.gather(*(host.stop_node(name) for name in names))
        return running

    if not state_dir.is_dir():
        return []
    with directory.locked():
        return asyncio.run(run())


def status(*, state_dir: Path, ask_brokers: bool = True, connect: Connect | None = None) -> ClusterStatus | None:
    """Return the status of the cluster in ``state_dir``; None without one.

    Without ``ask_brokers``, the active controller and the numbers of leaders are unknown.
    """
    directory = StateDirectory(state_dir)
    for stored in directory.objects("Cluster"):
        connect = connect or ottla_admin.connector(_CALL_S_MIN)
        host = LocalHost(directory)
        return asyncio.run(_cluster_status(Cluster.parse(stored), host, connect if ask_brokers else None))
    return None


async def _cluster_status(cluster: Cluster, host: LocalHost, connect: Connect | None) -> ClusterStatus:
    desired = await host.desired(cluster)
    observed = await host.observe(desired)
    leaving = leaving_nodes(cluster, observed.nodes, None)
    if leaving:
        desired = await host.desired(cluster, leaving)
    view = await _view(host, desired, observed, connect) if connect is not None else None
    nodes = []
    for node in desired.nodes:
        seen = observed.nodes.get(node.name)
        process = host.process(node.name)
        port = node.place.client_port if node.is_broker else node.place.controller_port
        leads = sum(it.leader == node.node_id for it in view.partitions) if view and node.is_broker else None
        nodes.append(
            NodeStatus(
                node_id=node.node_id,
                name=node.name,
                roles=_roles(node, view),
                state=seen.state.value if seen else NodeState.STOPPED.value,
                pid=process.pid if process and process.is_running else None,
                message=seen.message if seen else "",
                leads=leads,
                client_address=f"{node.place.client_host}:{port}",
                http_address=f"http://{node.place.client_host}:{node.place.admin_port}",
                log=host.node_directory(node.name) / "node.log",
            )
        )
    return ClusterStatus(
        name=cluster.name,
        cluster_id=cluster.cluster_id,
        bootstrap_servers=host.bootstrap_servers(desired, cluster.listeners[0]),
        nodes=tuple(nodes),
        command_config=None if cluster.tls is None else host.command_config(cluster),
    )


async def _view(
    host: LocalHost, desired: DesiredCluster, observed: ObservedCluster, connect: Connect
) -> ClusterView | None:
    """Return the brokers' view; None if no broker responds, which is no error for a status."""
    if not observed.ready_nodes:
        return None
    try:
        access = await host.operator_access(desired)
        async with connect(access.bootstrap_servers, access.properties) as broker:
            return await broker.observe()
    except EXPECTED_ERRORS:
        return None


def _roles(node: DesiredNode, view: ClusterView | None) -> tuple[str, ...]:
    """Return the node's roles in Kafka's terms; the active controller is marked."""
    is_active = view is not None and view.controller_id == node.node_id
    roles = ["broker"] if node.is_broker else []
    roles += ["active controller" if is_active else "controller"] if node.is_controller else []
    return tuple(roles)


def _session(
    directory: StateDirectory,
    bootstrap: str | None,
    properties: Mapping[str, str] | None,
    connect: Connect | None,
    timeout_s: float,
) -> Session:
    connect = connect or ottla_admin.connector(max(_CALL_S_MIN, min(timeout_s, ottla_admin.REQUEST_TIMEOUT_S_MAX)))
    elsewhere = None if bootstrap is None else OperatorAccess(bootstrap_servers=bootstrap, properties=properties or {})
    return Session(directory, LocalHost(directory), connect, elsewhere=elsewhere, timeout_s=timeout_s)
