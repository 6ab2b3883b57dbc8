"""The host's view of nodes: one of the planner's two inputs; the other is the brokers' view of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class NodeState(Enum):
    """The state of a node, as its host sees it."""

    STOPPED = "stopped"
    """It does not run and will not unless it is started."""
    STARTING = "starting"
    """It is starting and has not been ready since it was started."""
    READY = "ready"
    UNREADY = "unready"
    """It has been ready, or may have been, and is not now; partitions may still need its replicas."""
    FAILED = "failed"
    """It was started and fails; the host keeps trying, or a new revision may help."""
    STOPPING = "stopping"
    """It is to stay stopped and has not ended yet."""


KUBERNETES_NODE_LOST = "MachineLost"
"""The reason of a node whose Kubernetes node does not respond."""

POD_REJECTED = "PodRejected"
"""The reason of a node whose pod the API server rejects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node as its host sees it."""

    name: str
    state: NodeState
    uid: str = ""
    """Identifies this run of the node; empty if nothing runs, or if only the operator restarts it."""
    revision: str | None = None
    """Of the configuration that it runs with; None if nothing runs."""
    reason: str = ""
    """CamelCase, for a node that is neither READY nor STOPPED."""
    message: str = ""
    has_crashed: bool = False
    """Of a FAILED node: it ran and ended by itself, and may look ready between two crashes."""
    parts: str = ""
    """Inputs of the revision that it runs with, part by part (`model.revision`); empty if unknown."""
    certificate: str | None = None
    """SHA-256 in hexadecimal of the certificate that it presents to other nodes; None without TLS or response."""
    certificate_names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Names in the certificate of each listener for clients outside, by listener, as far as they were read."""
    host_address: str = ""
    """The address of the Kubernetes node that it runs on, if the host knows one."""
    rejection: str = ""
    """Why the host rejects the node's next run, in its own words; empty if it does not, or if none is due."""
    unverified: str = ""
    """Why clients outside would reject its certificate, until it has loaded one that exists already."""
