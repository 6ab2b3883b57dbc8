"""The nodes of a Cluster, and the server.properties of each, in Kafka's own keys."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ottla_operator.model.broker_configs import static_configs
from ottla_operator.model.manifest import Cluster, Pool, id_of
from ottla_operator.model.node_listeners import Place, authorization_properties, listener_properties
from ottla_operator.model.outside import Outside
from ottla_operator.model.revision import IMAGE, RESTART, encode

RESTART_ANNOTATION = "ottla.dev/restart"
"""On a Cluster: another value restarts all of its nodes."""
_REPLICATION_FACTOR = 3
_CONTROLLERS = "controller.quorum.bootstrap.servers"
_JOIN = ("--no-initial-controllers",)

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredNode:
    """The desired state of one node."""

    node_id: int
    pool: str
    name: str
    place: Place
    properties: str
    """Contents of its server.properties."""
    revision: str
    """Revision of its pool, whose nodes share one template: changes when they have to be restarted."""
    parts: str = ""
    """Inputs of the revision, part by part (`model.revision`)."""
    is_broker: bool = True
    is_controller: bool = True
    is_leaving: bool = False
    """Whether the spec has fewer nodes: it runs only until its partitions have moved and it does not vote."""
    format_arguments: tuple[str, ...] = _JOIN
    """Arguments of ``ottla format``, besides cluster id and configuration; the same in the whole pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredCluster:
    """A Cluster together with all of its nodes, in the order of its pools."""

    cluster: Cluster
    nodes: tuple[DesiredNode, ...]
    image: str = ""
    """The container image in use; empty on a host without containers."""
    version: str | None = None
    """The ``spec.version`` that means ``image``; None if none does."""
    templates: tuple[DesiredNode, ...] = ()
    """The first node of each pool, also of an empty one: the template of its nodes."""
    outside: Outside | None = None
    """Observed Services for clients outside Kubernetes; None on a host without Services."""

    @property
    def staying(self) -> tuple[DesiredNode, ...]:
        """The nodes in the spec."""
        return tuple(node for node in self.nodes if not node.is_leaving)

    @property
    def brokers(self) -> tuple[DesiredNode, ...]:
        """The brokers in the spec."""
        return tuple(node for node in self.staying if node.is_broker)

    @property
    def controllers(self) -> tuple[DesiredNode, ...]:
        """The controllers in the spec."""
        return tuple(node for node in self.staying if node.is_controller)

    def addresses(self, port: Callable[[Place], int]) -> str:
        """Return the addresses of the brokers at one of their ports, as ``host:port[,host:port]``."""
        return ",".join(f"{node.place.client_host}:{port(node.place)}" for node in self.brokers)


def desired_cluster(
    cluster: Cluster,
    place: Callable[[Pool, int, int], Place],
    image: str = "",
    leaving: Collection[str] = (),
) -> DesiredCluster:
    """Return the nodes of ``cluster``.

    Until the first voters have formed their quorum, other controllers are left out: there is no quorum to join.

    Args:
        cluster: the spec.
        place: from pool, ordinal within it and node id to the node's place.
        image: the container image in use; a new one is a new revision. Empty on a host without containers.
        leaving: names of nodes that are no longer in the spec and still hold partitions or a vote.
    """
    members: list[tuple[Pool, int]] = []
    for pool in cluster.pools:
        last = max((ordinal_of(cluster, pool, name) for name in leaving), default=-1)
        ordinals = range(max(pool.nodes, last + 1))
        members += [(pool, ordinal) for ordinal in ordinals if _may_start(cluster, pool, ordinal)]
    controllers = [
        place(pool, ordinal, pool.first_node_id + ordinal)
        for pool, ordinal in members
        if pool.is_controller and ordinal < pool.nodes
    ]
    formatting = _format_arguments(cluster, place)

    def node(pool: Pool, ordinal: int, revision: str, parts: str) -> DesiredNode:
        node_id = pool.first_node_id + ordinal
        where = place(pool, ordinal, node_id)
        return DesiredNode(
            node_id=node_id,
            pool=pool.name,
            name=node_name(cluster, pool, ordinal),
            place=where,
            properties=render_properties(_server_properties(cluster, pool, node_id, where, controllers)),
            revision=revision,
            parts=parts,
            is_broker=pool.is_broker,
            is_controller=pool.is_controller,
            is_leaving=ordinal >= pool.nodes,
            format_arguments=formatting if pool.is_controller else _JOIN,
        )

    templates: dict[str, DesiredNode] = {}
    for pool in cluster.pools:
        # Nodes of a pool differ only in id and place: one revision serves all, however many there are.
        shared = _shared_properties(cluster, pool, place(pool, 0, pool.first_node_id), controllers)
        templates[pool.name] = node(
            pool, 0, _revision(cluster, pool, image, shared), _parts(cluster, pool, image, shared)
        )
    return DesiredCluster(
        cluster=cluster,
        image=image,
        nodes=tuple(
            node(pool, ordinal, templates[pool.name].revision, templates[pool.name].parts) for pool, ordinal in members
        ),
        templates=tuple(templates.values()),
    )


def node_name(cluster: Cluster, pool: Pool, ordinal: int) -> str:
    return f"{cluster.name}-{pool.name}-{ordinal}"


def ordinal_of(cluster: Cluster, pool: Pool, name: str) -> int:
    """Return the ordinal of ``name`` in ``pool``; -1 if it is no node's."""
    number = name.removeprefix(f"{cluster.name}-{pool.name}-")
    return int(number) if number != name and number.isascii() and number.isdecimal() else -1


def node_of_name(cluster: Cluster, name: str) -> tuple[Pool, int] | None:
    """Return pool and ordinal of the node called ``name``; None if it belongs to no pool of ``cluster``."""
    for pool in cluster.pools:
        ordinal = ordinal_of(cluster, pool, name)
        if ordinal >= 0:
            return pool, ordinal
    return None


def node_of_id(cluster: Cluster, node_id: int) -> tuple[Pool, int] | None:
    """Return pool and ordinal of the node that has or last had ``node_id``; None if no pool starts at or below it.

    Beyond the ends of all pools the id belongs to the last pool that starts below it.
    """
    candidates = [pool for pool in cluster.pools if pool.first_node_id <= node_id]
    if not candidates:
        return None
    pool = max(candidates, key=lambda pool: pool.first_node_id)
    return pool, node_id - pool.first_node_id


def directory_id(cluster: Cluster, node_id: int) -> str:
    """Return the directory id with which a first voter's metadata log is formatted."""
    return id_of(f"directory-id {cluster.cluster_id} {node_id}")


def _may_start(cluster: Cluster, pool: Pool, ordinal: int) -> bool:
    initial = cluster.initial_controllers
    return not initial or not pool.is_controller or pool.first_node_id + ordinal in initial


def _format_arguments(cluster: Cluster, place: Callable[[Pool, int, int], Place]) -> tuple[str, ...]:
    voters = []
    for node_id in cluster.initial_controllers:
        found = node_of_id(cluster, node_id)
        assert found is not None, "pools keep their first ids"
        where = place(found[0], found[1], node_id)
        voters.append(f"{node_id}@{where.client_host}:{where.controller_port}:{directory_id(cluster, node_id)}")
    return ("--initial-controllers", ",".join(voters)) if voters else _JOIN


def _server_properties(
    cluster: Cluster, pool: Pool, node_id: int, place: Place, controllers: Sequence[Place]
) -> Mapping[str, str]:
    return {
        **_replication(cluster),
        **static_configs(cluster.config),
        **listener_properties(cluster, pool, place),
        **authorization_properties(cluster),
        "process.roles": ",".join(pool.roles),
        "node.id": str(node_id),
        _CONTROLLERS: ",".join(f"{it.client_host}:{it.controller_port}" for it in controllers),
        "log.dirs": place.log_directory,
        "ottla.admin.listener": f"{place.listen_host}:{place.admin_port}",
    }


def _shared_properties(cluster: Cluster, pool: Pool, first: Place, controllers: Sequence[Place]) -> Mapping[str, str]:
    """Return the properties whose change restarts the nodes of ``pool``; ``first`` is the place of the first one."""
    # Advertised addresses differ by node: brokers with an outdated one are found by querying the brokers.
    common = replace(first, outside=dict.fromkeys(first.outside, ""))
    properties = _server_properties(cluster, pool, pool.first_node_id, common, controllers)
    following = _keys_that_follow_node_counts(cluster)
    return {key: text for key, text in properties.items() if key not in following}


def _revision(cluster: Cluster, pool: Pool, image: str, shared: Mapping[str, str]) -> str:
    return _digest(
        image,
        json.dumps(pool.resources, sort_keys=True),
        render_properties(shared),
        *_pod_inputs(cluster, pool, image),
        *_restart_inputs(cluster),
    )


def _pod_inputs(cluster: Cluster, pool: Pool, image: str) -> list[str]:
    """Return the inputs of the revision that come from the pod; empty without any, or without containers."""
    words = {
        "template": pool.template.set_fields,
        "rack": cluster.rack_key if pool.is_broker else None,
        # Volumes are resized without a restart.
        "volumes": [volume.name for volume in pool.storage.volumes[1:]],
    }
    said = {name: value for name, value in words.items() if value}
    return [json.dumps(said, sort_keys=True)] if said and image else []


def _restart_inputs(cluster: Cluster) -> list[str]:
    asked = cluster.annotations.get(RESTART_ANNOTATION)
    return [f"restart {asked}"] if asked else []


def _parts(cluster: Cluster, pool: Pool, image: str, config: Mapping[str, str]) -> str:
    parts = {
        IMAGE: image,
        RESTART: cluster.annotations.get(RESTART_ANNOTATION, ""),
        "resources": json.dumps(pool.resources, sort_keys=True) if pool.resources else "",
        "pod template": "".join(_pod_inputs(cluster, pool, image)),
    }
    return encode(parts, config)


def _keys_that_follow_node_counts(cluster: Cluster) -> Set[str]:
    """Return the keys whose values depend on the number of nodes: scaling must not restart nodes.

    Running nodes learn of controllers from the quorum itself; replication factors are updated at the next restart.
    """
    return {_CONTROLLERS} | (_replication(cluster).keys() - cluster.config.keys())


def _replication(cluster: Cluster) -> Mapping[str, str]:
    """Return the default replication factors, unless the spec sets them: three, if there are three brokers.

    The transactions' topic stays writable while one broker is down, if there is more than one.
    """
    factor = min(_REPLICATION_FACTOR, len(cluster.broker_ids))
    return {
        "default.replication.factor": str(factor),
        "offsets.topic.replication.factor": str(factor),
        "transaction.state.log.replication.factor": str(factor),
        "transaction.state.log.min.isr": str(max(1, factor - 1)),
    }


def render_properties(properties: Mapping[str, str]) -> str:
    """Write what java.util.Properties reads back: no value of a manifest becomes a second line or another key."""
    return "".join(f"{_escape_key(key)}={_escape_value(value)}\n" for key, value in sorted(properties.items()))


def _escape_key(text: str) -> str:
    return re.sub(r"[=:#! ]", r"\\\g<0>", text.translate(_ESCAPES))


def _escape_value(text: str) -> str:
    return ("\\" if text.startswith(" ") else "") + text.translate(_ESCAPES)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
