"""Nodes and partitions of a simulated cluster."""

from dataclasses import dataclass

from ottla_operator.ports.nodes import NodeState


@dataclass
class SimulatedNode:
    """One node, running or not, with the contents of its disk."""

    node_id: int
    is_broker: bool
    is_controller: bool
    directory_id: str
    state: NodeState = NodeState.STOPPED
    revision: str | None = None
    parts: str = ""
    ticks_left: int = 0
    is_synced: bool = False
    """Whether its metadata log is caught up."""

    @property
    def is_ready(self) -> bool:
        return self.state is NodeState.READY


@dataclass
class SimulatedPartition:
    """One partition, and its reassignment in progress."""

    replicas: list[int]
    isr: list[int]
    leader: int
    target: list[int] | None = None
