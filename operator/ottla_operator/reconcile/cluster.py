"""What to do about one Cluster: pure planning from the desired nodes, what the host runs and what brokers say.

Every look says all that is left to do; nothing is remembered between two, so an operator that ended in the middle goes
on where it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla_operator.model.conditions import Refused, Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.reconcile import voters
from ottla_operator.reconcile.draining import drain, forgotten
from ottla_operator.reconcile.nodes import NodeState, ObservedNode
from ottla_operator.reconcile.rolling import is_running, next_restart
from ottla_operator.reconcile.steps import ElectPreferredLeaders, Plan, Publish, RestartNode, StartNode, Step, StopNode
from ottla_operator.reconcile.view import ClusterView

_REBALANCE = "auto.leader.rebalance.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """Everything that the host has of one cluster."""

    outdated: tuple[str, ...]
    """Names of what is missing or differs from the desired configuration, sorted; what `Publish` repairs."""
    nodes: Mapping[str, ObservedNode]
    """By node name; those that were stopped for good are not among them once they have ended."""

    @property
    def ready_nodes(self) -> int:
        return sum(node.state is NodeState.READY for node in self.nodes.values())


def plan_cluster(desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None = None) -> Plan:
    """Return the steps towards ``desired``, up to where the next look is needed.

    At most one node is restarted per plan, and none while another is on its way up, unless that one needs a
    restart itself.

    Args:
        desired: the nodes that the spec asks for, and those that have to run until they are empty.
        observed: what the host has.
        view: what brokers say; None while none answers.
    """
    moves = drain(desired, view) if view is not None else None
    if isinstance(moves, Refused):
        return Plan(obstacle=moves)
    steps: list[Step] = [Publish(desired, observed.outdated)] if observed.outdated else []
    wanted = {node.name for node in desired.nodes}
    surplus = [observed.nodes[name] for name in sorted(observed.nodes.keys() - wanted)]
    ending = [node for node in surplus if node.state is NodeState.STOPPING]
    steps += [StopNode(node.name) for node in surplus if node not in ending]
    steps += [StartNode(node) for node in _missing(desired, observed)]
    waiting: list[Waiting | None] = [_node_obstacle(desired, observed), *map(_not_ready, ending)]
    for choice in _brokers_choices(desired, observed, view, moves):
        if isinstance(choice, Waiting):
            waiting.append(choice)
        elif choice is not None:
            steps.append(choice)
    if all(isinstance(step, Publish) for step in steps):
        restart = next_restart(desired, observed.nodes, view)
        if isinstance(restart, RestartNode):
            steps.append(restart)
            waiting.insert(0, Waiting("RestartingNode", str(restart)))
        else:
            waiting.append(restart)
    return Plan(tuple(steps), next((it for it in waiting if it is not None), None))


def _missing(desired: DesiredCluster, observed: ObservedCluster) -> list[DesiredNode]:
    """Return the nodes to start; a node waits while one that leaves has its id."""
    held = {node.node_id: node.name for node in desired.nodes if node.is_leaving}
    return [
        node
        for node in desired.nodes
        if not is_running(observed.nodes.get(node.name)) and held.get(node.node_id, node.name) == node.name
    ]


def _brokers_choices(
    desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None, moves: Step | Waiting | None
) -> list[Step | Waiting | None]:
    """Return what to ask brokers for, most important first."""
    if view is None:
        return []
    return [
        voters.next_change(desired, view),
        moves,
        forgotten(desired, observed.nodes, view),
        _preferred_leaders(desired, view),
    ]


def _preferred_leaders(desired: DesiredCluster, view: ClusterView) -> ElectPreferredLeaders | None:
    """Return the leaderships that go back to who is alive again; nobody else's while anything moves."""
    if desired.cluster.config.get(_REBALANCE) == "false" or any(partition.is_moving for partition in view.partitions):
        return None
    live = view.live_brokers
    away = tuple(
        partition.partition
        for partition in view.partitions
        if partition.replicas
        and partition.leader not in (-1, partition.replicas[0])
        and partition.replicas[0] in partition.isr
        and partition.replicas[0] in live
    )
    return ElectPreferredLeaders(away) if away else None


def _node_obstacle(desired: DesiredCluster, observed: ObservedCluster) -> Waiting | None:
    for node in desired.nodes:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is NodeState.STOPPED:
            return Waiting("StartingNode", f"node {node.name} is being started")
        if seen.state is not NodeState.READY:
            return _not_ready(seen)
    return None


def _not_ready(node: ObservedNode) -> Waiting:
    return Waiting(node.reason or "NodeNotReady", f"node {node.name}: {node.message or node.state.value}")
