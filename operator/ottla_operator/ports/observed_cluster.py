"""A cluster as its host observes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.conditions import Refused, Underway
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.volume_claims import ObservedClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """Everything that the host has of one cluster."""

    outdated: tuple[str, ...]
    """Names of what is missing or differs from the desired configuration, sorted; what `Publish` repairs."""
    nodes: Mapping[str, ObservedNode]
    """By node name; those that were stopped for good are not among them once they have ended."""
    claims: tuple[ObservedClaim, ...] = ()
    """Volumes that outlive their nodes, on a host that knows of any."""
    storage: Refused | Underway | None = None
    """What is to say of volumes that are not as large as they should be, when nothing else is."""
    disruptions_allowed: int | None = None
    """How many nodes others may stop, as the host's budget says; -1 where that is missing or damaged, None where the
    host has none."""

    @property
    def ready_nodes(self) -> int:
        return sum(node.state is NodeState.READY for node in self.nodes.values())
