"""What to do about one Cluster: pure planning from the desired nodes, what the host runs and what brokers say.

Every look says all that is left to do; nothing is remembered between two, so an operator that ended in the middle goes
on where it was.
"""

from collections.abc import Set
from dataclasses import replace

from ottla_operator.model.conditions import Halted, Obstacle, Refused, Underway, Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.operation import Operation, Record
from ottla_operator.planning.cluster import voters
from ottla_operator.planning.cluster.broker_configs import config_change
from ottla_operator.planning.cluster.draining import forgotten, surplus_name
from ottla_operator.planning.cluster.features import next_levels
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance
from ottla_operator.planning.cluster.rolling import Roll, RollTimings, is_running, roll
from ottla_operator.planning.cluster.scaling import ScalingPlan, plan_scaling
from ottla_operator.planning.cluster.volumes import next_removal
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.cluster import AlterOwnConfigs, ElectPreferredLeaders, Publish, StartNode, StopNode
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster

_REBALANCE = "auto.leader.rebalance.enable"


def plan_cluster(
    desired: DesiredCluster,
    observed: ObservedCluster,
    view: ClusterView | None = None,
    record: Record | None = None,
    lookup: ObservedRebalance | None = None,
    timings: RollTimings | None = None,
) -> Plan:
    """Return the steps towards ``desired``, up to where the next look is needed.

    At most one node is restarted per plan, or brokers of one rack, and none while another is on its way up, unless that
    one needs a restart itself.

    Args:
        desired: the nodes that the spec asks for, and those that have to run until they are empty.
        observed: what the host has.
        view: what brokers say; None while none answers.
        record: what is remembered of the operation that was under way (``status.operation``).
        lookup: what was looked up for a rebalance.
        timings: what the time says of restarts.
    """
    scaling = plan_scaling(desired, observed.nodes, view, lookup or ObservedRebalance()) if view is not None else None
    if isinstance(scaling, Refused):
        return Plan(obstacle=scaling)
    steps: list[Step] = [Publish(desired, observed.outdated)] if observed.outdated else []
    wanted = {node.name for node in desired.nodes}
    surplus = [observed.nodes[name] for name in sorted(observed.nodes.keys() - wanted)]
    ending = [node for node in surplus if node.state is NodeState.STOPPING]
    set_up = _set_up_first(desired, scaling)
    steps += [StopNode(node.name, node.uid) for node in surplus if node not in ending and node.name not in set_up]
    starts = [StartNode(node) for node in _missing(desired, observed)]
    steps += starts
    waiting: list[Obstacle | None] = [_node_obstacle(desired, observed), *map(_not_ready, ending)]
    removal = next_removal(desired, observed.claims, frozenset(observed.nodes), view)
    steps += [removal] if removal is not None else []
    for choice in _brokers_choices(desired, observed, view, scaling):
        if isinstance(choice, Waiting | Underway):
            waiting.append(choice)
        elif choice is not None:
            steps.append(choice)
    others = [str(step) for step in steps if not isinstance(step, Publish)]
    comes_first = others[0] if others else None
    rolling = roll(desired, observed.nodes, view, record, timings or RollTimings(), comes_first=comes_first)
    says_all = rolling.restarts or isinstance(rolling.obstacle, Halted)
    rolling = _with_starts(rolling, record, {start.node.name for start in starts})
    waiting.insert(0 if says_all else len(waiting), rolling.obstacle)
    steps += rolling.restarts
    if view is not None and not steps and not any(waiting):
        # Nobody is left who runs another release than the manifest asks for.
        levels = next_levels(desired.cluster.features, view)
        steps += [] if levels is None else [levels]
    return Plan(
        tuple(steps),
        next((it for it in waiting if it is not None), None),
        # Who is restarted, and with what it then fails, must be known.
        rolling.operation
        if rolling.restarts
        else _operation(
            record,
            voters.quorum_operation(desired, view),
            None if scaling is None else scaling.operation,
            rolling.operation,
        ),
        None if scaling is None else (scaling.before, scaling.after),
    )


def _with_starts(rolling: Roll, record: Record | None, started: Set[str]) -> Roll:
    """Return the roll, which is at nodes that are started once more: they were stopped, and the operator ended."""
    operation = rolling.operation
    if operation is None or record is None or record.id != operation.id:
        return rolling
    again = tuple(name for name in record.nodes if name in started)
    if not again:
        return rolling
    operation = replace(operation, step="Restarting", nodes=(*operation.nodes, *again), takes_step=True)
    return replace(rolling, operation=operation)


def _set_up_first(desired: DesiredCluster, scaling: ScalingPlan | None) -> set[str | None]:
    """Return the nodes on which something is set now: who is to get nothing more is told before it is stopped."""
    steps = () if scaling is None else scaling.steps
    return {surplus_name(desired.cluster, step.node_id) for step in steps if isinstance(step, AlterOwnConfigs)}


def _operation(record: Record | None, *found: Operation | None) -> Operation | None:
    """Return the operation to be recorded: the one that is, while it goes on; else who acts, else the first."""
    there = [operation for operation in found if operation is not None]
    known = [operation for operation in there if record is not None and operation.id == record.id]
    acting = [operation for operation in there if operation.takes_step]
    return next(iter((*known, *acting, *there)), None)


def _missing(desired: DesiredCluster, observed: ObservedCluster) -> list[DesiredNode]:
    """Return the nodes to start; a node waits while one that leaves has its id."""
    held = {node.node_id: node.name for node in desired.nodes if node.is_leaving}
    return [
        node
        for node in desired.nodes
        if not is_running(observed.nodes.get(node.name)) and held.get(node.node_id, node.name) == node.name
    ]


def _brokers_choices(
    desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None, scaling: ScalingPlan | None
) -> list[Step | Waiting | Underway | None]:
    """Return what to ask brokers for, most important first."""
    if view is None or scaling is None:
        return []
    return [
        voters.next_change(desired, view),
        *scaling.steps,
        scaling.obstacle,
        forgotten(desired, observed.nodes, view),
        _preferred_leaders(desired, view),
        # Last: brokers may refuse what it asks.
        config_change(desired.cluster.config, view),
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
