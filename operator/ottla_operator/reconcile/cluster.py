"""What to do about one Cluster: pure planning from the desired nodes and what the host runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.reconcile.steps import Plan, Publish, RestartNode, StartNode, Step, StopNode


class NodeState(Enum):
    """Where a node is in its life, as its host sees it."""

    STOPPED = "stopped"
    """Nothing runs and nothing will unless it is started."""
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    """It was started and does not come up; the host keeps trying, or a new revision may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node as its host sees it."""

    name: str
    state: NodeState
    revision: str | None = None
    """Of the configuration that it runs with; None when nothing runs."""
    reason: str = ""
    """CamelCase, for a node that is neither READY nor STOPPED."""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """Everything that the host has of one cluster."""

    outdated: tuple[str, ...]
    """Names of what is missing or differs from the desired configuration, sorted; what `Publish` repairs."""
    nodes: Mapping[str, ObservedNode]
    """By node name."""

    @property
    def ready_nodes(self) -> int:
        return sum(node.state is NodeState.READY for node in self.nodes.values())


def plan_cluster(desired: DesiredCluster, observed: ObservedCluster) -> Plan:
    """Return the steps towards ``desired``.

    At most one node is restarted per plan, and none while another is on its way up, unless that one needs a
    restart itself.
    """
    steps: list[Step] = []
    if observed.outdated:
        steps.append(Publish(desired, observed.outdated))
    wanted = {node.name for node in desired.nodes}
    steps += [StopNode(name) for name in sorted(observed.nodes.keys() - wanted) if _runs(observed.nodes[name])]
    steps += [StartNode(node) for node in desired.nodes if not _runs(observed.nodes.get(node.name))]
    restart = _next_restart(desired.nodes, observed.nodes)
    if restart is not None:
        steps.append(restart)
    return Plan(tuple(steps), _obstacle(desired, observed, restart))


def _runs(node: ObservedNode | None) -> bool:
    return node is not None and node.state is not NodeState.STOPPED


def _next_restart(nodes: tuple[DesiredNode, ...], observed: Mapping[str, ObservedNode]) -> RestartNode | None:
    running = [(node, observed[node.name]) for node in nodes if _runs(observed.get(node.name))]
    outdated = [(node, seen) for node, seen in running if seen.revision not in (None, node.revision)]
    broken = [(node, seen) for node, seen in outdated if seen.state is not NodeState.READY]
    if broken:
        node, seen = broken[0]
        return RestartNode(node, f"it is {seen.state.value} with an old configuration")
    if outdated and len(running) == len(nodes) and all(seen.state is NodeState.READY for _, seen in running):
        return RestartNode(outdated[0][0], "its configuration changed")
    return None


def _obstacle(desired: DesiredCluster, observed: ObservedCluster, restart: RestartNode | None) -> Waiting | None:
    if restart is not None:
        return Waiting("RestartingNode", f"{restart}")
    for node in desired.nodes:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is NodeState.STOPPED:
            return Waiting("StartingNode", f"node {node.name} is being started")
        if seen.state is not NodeState.READY:
            return Waiting(seen.reason or "NodeNotReady", f"node {node.name}: {seen.message or seen.state.value}")
    return None
