"""The host's view of one cluster."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.conditions import Rejected, Underway
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.volume_claims import ObservedClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """Nodes, volumes and differences from the desired state of one cluster."""

    outdated: tuple[str, ...]
    """Names of objects that are missing or differ from the desired state, sorted; `Publish` repairs them."""
    nodes: Mapping[str, ObservedNode]
    """By node name; without nodes that were stopped for good and have ended."""
    claims: tuple[ObservedClaim, ...] = ()
    """Volumes that outlive their nodes, on a host with such volumes."""
    storage: Rejected | Underway | None = None
    """The readiness for volumes that are smaller than desired, unless something else is reported."""
    disruptions_allowed: int | None = None
    """How many nodes others may stop, by the host's budget; -1 if that is missing or was edited, None if the host has
    none."""

    @property
    def ready_nodes(self) -> int:
        return sum(node.state is NodeState.READY for node in self.nodes.values())
