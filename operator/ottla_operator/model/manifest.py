"""Admitted manifests as typed values, which the planners read instead of nested dictionaries."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.types import Uuid, format_uuid
from ottla_operator.model.cluster_tls import NODE_PRINCIPAL, OPERATOR_PRINCIPAL, ClusterTls
from ottla_operator.model.document import Document, Json
from ottla_operator.model.features import FeaturePolicy
from ottla_operator.model.listeners import PLAINTEXT, Listener
from ottla_operator.model.maintenance import MaintenanceWindow
from ottla_operator.model.operation import Record, parse_record
from ottla_operator.model.pod_template import PodTemplate
from ottla_operator.model.rolling_policy import RollingPolicy
from ottla_operator.model.scaling import Scaling
from ottla_operator.model.storage import DELETE, Storage


class ObjectKey(NamedTuple):
    """Identifies an object of the operator's kinds, on every host."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Metadata of an object, with the fields that the store (API server or state directory) adds."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 1
    created_at: str = ""
    """RFC 3339, UTC, whole seconds: sorts as a string."""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind, self.namespace, self.name)

    @classmethod
    def parse(cls, document: Document) -> "Metadata":
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
        )


def referred_cluster(document: Document) -> ObjectKey:
    """Return the Cluster that a Topic or User refers to: of the same namespace, unless the reference names another."""
    reference = document["spec"]["clusterRef"]
    own = document["metadata"].get("namespace", "")
    return ObjectKey("Cluster", reference.get("namespace", own), reference["name"])


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
    template: PodTemplate = field(default_factory=PodTemplate)

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
class NetworkPolicy:
    """``spec.networkPolicy``: ports between nodes are closed to others; each listener names its own peers."""

    http_from: tuple[Json, ...] | None = None
    """Peers that may reach the HTTP port; None: all."""

    @classmethod
    def parse(cls, spec: Json) -> "NetworkPolicy":
        peers = spec.get("httpFrom")
        return cls(http_from=None if peers is None else tuple(peers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorization:
    """``spec.authorization``: clients may do what access control entries allow."""

    super_users: frozenset[str] = frozenset()
    """Principals with all permissions, besides nodes and the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Cluster manifest, admitted."""

    metadata: Metadata
    image: str | None
    pools: tuple[Pool, ...]
    config: Mapping[str, str]
    annotations: Mapping[str, str]
    known_cluster_id: str | None
    """The id of the cluster as recorded in ``status.clusterId``."""
    known_initial_controllers: tuple[int, ...] | None = None
    """``status.initialControllers``; None before it is recorded."""
    tls: ClusterTls | None = None
    """None: nodes connect to each other without TLS."""
    listeners: tuple[Listener, ...] = (PLAINTEXT,)
    """Listeners for clients; at least one."""
    network_policy: NetworkPolicy | None = None
    """None: the operator restricts no port. Without effect on a local host."""
    authorization: Authorization | None = None
    """None: clients may do everything, unless ``config`` names an authorizer."""
    allowed_namespaces: frozenset[str] = frozenset()
    """Namespaces whose Topics and Users may refer to the Cluster, besides its own."""
    version: str | None = None
    """A release; None: the operator's own. ``image`` wins."""
    features: FeaturePolicy = field(default_factory=FeaturePolicy)
    known_addresses: Mapping[str, str] = field(default_factory=dict)
    """Bootstrap addresses by listener name, as far as they are recorded in ``status.listeners``."""
    rack_key: str | None = None
    """The Kubernetes node label with the rack of brokers (``rack.topologyKey``); None: brokers have no rack."""
    deletes_volumes: bool = False
    """Whether the volumes are deleted with the Cluster (``deletionPolicy: Delete``)."""
    rolling: RollingPolicy = field(default_factory=RollingPolicy)
    maintenance_windows: tuple[MaintenanceWindow, ...] = ()
    """When restarts that are not urgent may start; at any time if there are none."""
    known_image: str | None = None
    """The image of all nodes when all were last ready (``status.image``)."""
    known_version: str | None = None
    """The ``version`` that means that image (``status.version``); None where none does."""
    is_paused: bool = False
    """Nothing is changed (``spec.paused``)."""
    known_operation: Record | None = None
    """The operation in progress, as recorded in ``status.operation``."""
    scaling: Scaling = field(default_factory=Scaling)

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
        """The principals with all permissions in the cluster (``super.users``)."""
        given = frozenset(filter(None, map(str.strip, self.config.get("super.users", "").split(";"))))
        given |= self.authorization.super_users if self.authorization is not None else frozenset()
        return given if self.tls is None else given | {NODE_PRINCIPAL, OPERATOR_PRINCIPAL}

    def admits_namespace(self, namespace: str) -> bool:
        """Tell whether Topics and Users of ``namespace`` may refer to this cluster."""
        return namespace == self.metadata.namespace or not self.allowed_namespaces.isdisjoint({namespace, "*"})

    @property
    def known_bootstrap_servers(self) -> str | None:
        """The bootstrap address of the first listener; None until it is recorded."""
        return self.known_addresses.get(self.listeners[0].name)

    @property
    def initial_controllers(self) -> tuple[int, ...]:
        """The first voters of the metadata quorum; empty once it exists, and newly formatted controllers join it.

        A controller that lost its volume must not vote as the voter that it was: its votes are lost with the volume.
        """
        if self.known_initial_controllers is not None:
            return self.known_initial_controllers
        return self.controller_ids if self.known_cluster_id is None else ()

    @property
    def cluster_id(self) -> str:
        """The recorded id, else one derived from the object's uid."""
        return self.known_cluster_id or id_of(f"cluster-id {self.metadata.uid or self.metadata.key}")

    @classmethod
    def parse(cls, document: Document) -> "Cluster":
        spec, status = document["spec"], document.get("status", {})
        annotations = document["metadata"].get("annotations") or {}
        initial = status.get("initialControllers")
        tls, authorization = spec.get("tls"), spec.get("authorization")
        return cls(
            metadata=Metadata.parse(document),
            image=spec.get("image"),
            pools=tuple(
                Pool(
                    name=pool["name"],
                    nodes=pool["nodes"],
                    storage=Storage.parse(pool["storage"]),
                    roles=tuple(sorted(pool.get("roles", (BROKER, CONTROLLER)))),
                    first_node_id=pool.get("firstNodeId", 0),
                    resources=pool.get("resources", {}),
                    template=PodTemplate.parse(pool.get("template", {})),
                )
                for pool in spec["pools"]
            ),
            config=dict(sorted(spec.get("config", {}).items())),
            annotations=annotations,
            known_cluster_id=status.get("clusterId"),
            known_initial_controllers=None if initial is None else tuple(initial),
            tls=None if tls is None else ClusterTls.parse(tls),
            listeners=tuple(map(Listener.parse, spec.get("listeners", ()))) or (PLAINTEXT,),
            authorization=None
            if authorization is None
            else Authorization(super_users=frozenset(authorization.get("superUsers", ()))),
            network_policy=NetworkPolicy.parse(spec["networkPolicy"]) if "networkPolicy" in spec else None,
            allowed_namespaces=frozenset(spec.get("allowedNamespaces", ())),
            version=spec.get("version"),
            features=FeaturePolicy.parse(spec.get("features", {})),
            known_addresses=_known_addresses(status),
            rack_key=spec.get("rack", {}).get("topologyKey"),
            deletes_volumes=spec.get("deletionPolicy") == DELETE,
            rolling=RollingPolicy.parse(spec.get("rolling", {})),
            maintenance_windows=tuple(map(MaintenanceWindow.parse, spec.get("maintenanceWindows", ()))),
            known_image=status.get("image"),
            known_version=status.get("version"),
            is_paused=spec.get("paused", False),
            known_operation=parse_record(status),
            scaling=Scaling.parse(spec, status, annotations),
        )


def id_of(text: str) -> str:
    """Return an id in Kafka's format, always the same for the same string.

    It never begins with a dash, so that it can be typed as an argument: the first byte's top bit is cleared.
    """
    digest = hashlib.sha256(text.encode()).digest()
    return format_uuid(Uuid(bytes([digest[0] & 0x7F]) + digest[1:16]))


def _known_addresses(status: Document) -> Mapping[str, str]:
    # Operators that knew only one listener recorded its address in another field.
    before = {PLAINTEXT.name: status["bootstrapServers"]} if "bootstrapServers" in status else {}
    return {it["name"]: it["bootstrapServers"] for it in status["listeners"]} if "listeners" in status else before
