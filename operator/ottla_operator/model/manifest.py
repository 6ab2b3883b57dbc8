"""Admitted manifests as typed values: what the planner reads instead of nested dictionaries."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.types import Uuid, format_uuid
from ottla_operator.model.cluster_tls import NODE_PRINCIPAL, OPERATOR_PRINCIPAL, ClusterTls
from ottla_operator.model.document import Document, Json
from ottla_operator.model.listeners import PLAINTEXT, Listener

TOPIC_FINALIZER = "ottla.dev/topic"
"""On a Topic whose deletion must delete the topic too; on no other object."""


class ObjectKey(NamedTuple):
    """Names one object of ours, on every host."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What the store (API server or state directory) adds to a manifest."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 1
    created_at: str = ""
    """RFC 3339, UTC, whole seconds: sorts as text."""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind, self.namespace, self.name)

    @classmethod
    def of(cls, document: Document) -> "Metadata":
        metadata = document["metadata"]
        return cls(
            kind=document["kind"],
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            uid=metadata.get("uid", ""),
            generation=metadata.get("generation", 1),
            created_at=metadata.get("creationTimestamp", ""),
            is_deleting=bool(metadata.get("deletionTimestamp")),
            finalizers=tuple(metadata.get("finalizers", ())),
            resource_version=metadata.get("resourceVersion", ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A Topic manifest, admitted."""

    metadata: Metadata
    cluster: str
    topic_name: str
    partitions: int
    replication_factor: int | None
    """None: the brokers' ``default.replication.factor``."""
    config: Mapping[str, str]
    deletes_topic: bool
    """Whether the topic goes when its object goes (``deletionPolicy: Delete``)."""
    known_topic_id: str | None
    """The id that the topic had when it was last seen (``status.topicId``)."""

    @property
    def claim(self) -> tuple[str, ...]:
        """What no two Topics can have both."""
        return ("Topic", self.metadata.namespace, self.cluster, self.topic_name)

    @classmethod
    def parse(cls, document: Document) -> "Topic":
        spec, metadata = document["spec"], Metadata.of(document)
        return cls(
            metadata=metadata,
            cluster=spec["clusterRef"]["name"],
            topic_name=spec.get("topicName", metadata.name),
            partitions=spec["partitions"],
            replication_factor=spec.get("replicationFactor"),
            config=dict(sorted(spec.get("config", {}).items())),
            deletes_topic=spec.get("deletionPolicy") == "Delete",
            known_topic_id=document.get("status", {}).get("topicId"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The volume of each node of a pool."""

    size: str
    storage_class_name: str | None


BROKER = "broker"
CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A group of equal nodes; their ids are ``first_node_id`` and those that follow it."""

    name: str
    nodes: int
    storage: Storage
    roles: tuple[str, ...] = (BROKER, CONTROLLER)
    first_node_id: int = 0
    resources: Mapping[str, Json] = field(default_factory=dict)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER in self.roles

    @property
    def node_ids(self) -> range:
        return range(self.first_node_id, self.first_node_id + self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """``spec.authorization``: clients may do what access control entries allow."""

    super_users: frozenset[str] = frozenset()
    """Principals whom nothing is forbidden, besides nodes and the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Cluster manifest, admitted."""

    metadata: Metadata
    image: str | None
    pools: tuple[Pool, ...]
    config: Mapping[str, str]
    annotations: Mapping[str, str]
    known_cluster_id: str | None
    """The id that the cluster was given before (``status.clusterId``)."""
    known_initial_controllers: tuple[int, ...] | None = None
    """``status.initialControllers``; None where nobody has written it."""
    tls: ClusterTls | None = None
    """None: nodes talk to each other in the clear."""
    listeners: tuple[Listener, ...] = (PLAINTEXT,)
    """Where clients come in; at least one."""
    authorization: Authorization | None = None
    """None: everybody may do everything, unless ``config`` says otherwise."""
    known_addresses: Mapping[str, str] = field(default_factory=dict)
    """Where clients begin, by the name of their listener (``status.listeners``), as far as that was seen."""

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def nodes(self) -> int:
        return sum(pool.nodes for pool in self.pools)

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(number for pool in self.pools if pool.is_broker for number in pool.node_ids))

    @property
    def controller_ids(self) -> tuple[int, ...]:
        return tuple(sorted(number for pool in self.pools if pool.is_controller for number in pool.node_ids))

    @property
    def super_users(self) -> frozenset[str]:
        """The principals whom the cluster's authorizer asks nothing (``super.users``)."""
        given = frozenset(filter(None, map(str.strip, self.config.get("super.users", "").split(";"))))
        given |= self.authorization.super_users if self.authorization is not None else frozenset()
        return given if self.tls is None else given | {NODE_PRINCIPAL, OPERATOR_PRINCIPAL}

    @property
    def known_bootstrap_servers(self) -> str | None:
        """Where clients of the first listener begin; None until that was seen."""
        return self.known_addresses.get(self.listeners[0].name)

    @property
    def initial_controllers(self) -> tuple[int, ...]:
        """The first voters of the metadata quorum; empty once it is there, and whoever is formatted then joins it.

        Whoever lost its volume must not vote as the voter that it was: it has forgotten its votes.
        """
        if self.known_initial_controllers is not None:
            return self.known_initial_controllers
        return self.controller_ids if self.known_cluster_id is None else ()

    @property
    def cluster_id(self) -> str:
        """The known id, else one that follows from the object's uid: the same however often it is asked for.

        It never begins with a dash, so that it can be typed as an argument: the first byte's top bit is cleared.
        """
        if self.known_cluster_id:
            return self.known_cluster_id
        digest = hashlib.sha256(f"cluster-id {self.metadata.uid or self.metadata.key}".encode()).digest()
        return format_uuid(Uuid(bytes([digest[0] & 0x7F]) + digest[1:16]))

    @classmethod
    def parse(cls, document: Document) -> "Cluster":
        spec, status = document["spec"], document.get("status", {})
        initial = status.get("initialControllers")
        tls, authorization = spec.get("tls"), spec.get("authorization")
        return cls(
            metadata=Metadata.of(document),
            image=spec.get("image"),
            pools=tuple(
                Pool(
                    name=pool["name"],
                    nodes=pool["nodes"],
                    storage=Storage(
                        size=pool["storage"]["size"], storage_class_name=pool["storage"].get("storageClassName")
                    ),
                    roles=tuple(sorted(pool.get("roles", (BROKER, CONTROLLER)))),
                    first_node_id=pool.get("firstNodeId", 0),
                    resources=pool.get("resources", {}),
                )
                for pool in spec["pools"]
            ),
            config=dict(sorted(spec.get("config", {}).items())),
            annotations=document["metadata"].get("annotations") or {},
            known_cluster_id=status.get("clusterId"),
            known_initial_controllers=None if initial is None else tuple(initial),
            tls=None if tls is None else ClusterTls.parse(tls),
            listeners=tuple(map(Listener.parse, spec.get("listeners", ()))) or (PLAINTEXT,),
            authorization=None
            if authorization is None
            else Authorization(super_users=frozenset(authorization.get("superUsers", ()))),
            known_addresses=_known_addresses(status),
        )


def _known_addresses(status: Document) -> Mapping[str, str]:
    # An operator that knew one listener only wrote where that is.
    before = {PLAINTEXT.name: status["bootstrapServers"]} if "bootstrapServers" in status else {}
    return {it["name"]: it["bootstrapServers"] for it in status["listeners"]} if "listeners" in status else before
