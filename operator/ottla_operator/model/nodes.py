"""Which nodes a Cluster asks for, and the server.properties of each, in Kafka's own keys."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla_operator.model.manifest import Cluster, Pool

_INTERNAL_TOPIC_REPLICATION_FACTOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node lives; the host decides."""

    listen_host: str
    """What the listeners bind; empty for every address."""
    client_host: str
    """What clients are told (``advertised.listeners``) and other nodes dial."""
    client_port: int
    controller_port: int
    admin_port: int
    """HTTP: /healthz, /readyz, /metrics and the console."""
    log_directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredNode:
    """One node as it shall run."""

    node_id: int
    pool: str
    name: str
    place: Place
    properties: str
    """The whole text of its server.properties."""
    revision: str
    """Changes exactly when the node has to be restarted to become as desired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCluster:
    """A Cluster together with all of its nodes, in the order of their ids."""

    cluster: Cluster
    nodes: tuple[DesiredNode, ...]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{node.place.client_host}:{node.place.client_port}" for node in self.nodes)


def desired_cluster(cluster: Cluster, place: Callable[[Pool, int, int], Place], image: str = "") -> DesiredCluster:
    """Return the nodes of ``cluster``.

    Args:
        cluster: the spec.
        place: from pool, ordinal within it and node id to where that node lives.
        image: the container image that really runs; a new one is a new revision. Empty where there are no containers.
    """
    members = [(pool, ordinal) for pool in cluster.pools for ordinal in range(pool.nodes)]
    places = [place(pool, ordinal, node_id) for node_id, (pool, ordinal) in enumerate(members)]
    nodes = []
    for node_id, (pool, ordinal) in enumerate(members):
        properties = _render(_server_properties(cluster, node_id, places))
        revision = _digest(image, properties, repr(sorted(pool.resources.items())))
        nodes.append(
            DesiredNode(
                node_id=node_id,
                pool=pool.name,
                name=f"{cluster.name}-{pool.name}-{ordinal}",
                place=places[node_id],
                properties=properties,
                revision=revision,
            )
        )
    return DesiredCluster(cluster=cluster, nodes=tuple(nodes))


def _server_properties(cluster: Cluster, node_id: int, places: list[Place]) -> Mapping[str, str]:
    place = places[node_id]
    factor = str(min(_INTERNAL_TOPIC_REPLICATION_FACTOR, len(places)))
    return {
        # Internal topics must fit on the nodes that there are; a spec may say otherwise.
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": str(min(2, len(places))),
        **cluster.config,
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{place.listen_host}:{place.client_port},"
        f"CONTROLLER://{place.listen_host}:{place.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{place.client_host}:{place.client_port},"
        f"CONTROLLER://{place.client_host}:{place.controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(f"{it.client_host}:{it.controller_port}" for it in places),
        "log.dirs": place.log_directory,
        "ottla.admin.listener": f"{place.listen_host}:{place.admin_port}",
    }


def _render(properties: Mapping[str, str]) -> str:
    lines = [f"{_escape(key)}={_escape(value)}" for key, value in sorted(properties.items())]
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    """Write ``text`` so that java.util.Properties and its kind read back the same, also with spaces and line ends."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
