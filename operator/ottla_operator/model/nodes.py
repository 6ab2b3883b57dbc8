"""Which nodes a Cluster asks for, and the server.properties of each, in Kafka's own keys."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla_operator.model.manifest import Cluster, Pool

_INTERNAL_TOPIC_REPLICATION_FACTOR = 3

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


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
    """Of its pool, whose nodes have one template: changes when they have to be restarted to become as desired."""


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
    properties = [_render(_server_properties(cluster, node_id, places)) for node_id in range(len(members))]
    revisions = {
        pool.name: _digest(
            image,
            json.dumps(pool.resources, sort_keys=True),
            *(text for text, (member, _) in zip(properties, members, strict=True) if member is pool),
        )
        for pool in cluster.pools
    }
    nodes = (
        DesiredNode(
            node_id=node_id,
            pool=pool.name,
            name=f"{cluster.name}-{pool.name}-{ordinal}",
            place=places[node_id],
            properties=properties[node_id],
            revision=revisions[pool.name],
        )
        for node_id, (pool, ordinal) in enumerate(members)
    )
    return DesiredCluster(cluster=cluster, nodes=tuple(nodes))


def _server_properties(cluster: Cluster, node_id: int, places: list[Place]) -> Mapping[str, str]:
    place = places[node_id]
    return {
        # Internal topics must fit on the nodes that there are; a spec may say otherwise.
        "offsets.topic.replication.factor": str(min(_INTERNAL_TOPIC_REPLICATION_FACTOR, len(places))),
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
    """Write what java.util.Properties reads back: no text of a manifest becomes a second line or another key."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in sorted(properties.items()))


def _escape_key(text: str) -> str:
    return re.sub(r"[=:#! ]", r"\\\g<0>", text.translate(_ESCAPES))


def _escape_value(text: str) -> str:
    return ("\\" if text.startswith(" ") else "") + text.translate(_ESCAPES)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
