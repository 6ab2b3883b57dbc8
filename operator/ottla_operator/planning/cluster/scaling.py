"""Scaling and reassignments of a Cluster: steps, operation, and the records in the status. Pure.

Leaving brokers are cordoned, then drained; new brokers participate at once, after a rebalance, or when an administrator
moves a partition to them (``spec.scaling.onScaleUp``). Internal topics get the replicas that a smaller cluster could
not hold (`internal_topics`). Reassignments are throttled if the spec says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Rejected, Underway, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.operation import Operation, OperationKind
from ottla_operator.model.scaling import OnScaleUp, RebalancePhase, Scaling
from ottla_operator.planning.cluster.cordons import cordon
from ottla_operator.planning.cluster.draining import drain, surplus_name
from ottla_operator.planning.cluster.internal_topics import added_replicas, lacking_replicas
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance, Rebalancing, newcomers, rebalance
from ottla_operator.planning.cluster.throttling import throttle
from ottla_operator.planning.plan import Step
from ottla_operator.planning.steps.cluster import WriteRebalancePlan
from ottla_operator.planning.steps.topic import MOVES_MAX, ReassignPartitions
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState, ObservedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPlan:
    """Steps, obstacle and operation of scaling, and its records."""

    steps: tuple[Step, ...] = ()
    obstacle: Waiting | Underway | None = None
    operation: Operation | None = None
    before: Scaling
    """To be recorded before the first step."""
    after: Scaling
    """To be recorded after the last step."""


def plan_scaling(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView,
    lookup: ObservedRebalance,
) -> ScalingPlan | Rejected:
    """Return the plan for new and leaving brokers, and for a rebalance.

    Args:
        desired: the nodes in the spec, and those that leave.
        observed: the host's view of nodes, by name.
        view: the brokers' view, with their own configs if `needs_settings` says so.
        lookup: the present plan, and the input of a new one.
    """
    moves = drain(desired, view)
    if isinstance(moves, Rejected):
        return moves
    scaling, balancing = desired.cluster.scaling, rebalance(desired, view, lookup)
    participating = _participating(desired, view, balancing)
    begins: Mapping[TopicPartition, tuple[int, ...]] = {}
    if isinstance(moves, ReassignPartitions):
        begins = moves.targets
    elif moves is None and _is_whole(desired, observed):
        capacity = max(MOVES_MAX - sum(partition.is_moving for partition in view.partitions), 0)
        begins = {move.partition: move.after for move in balancing.left[:capacity]}
        if not balancing.left:
            live = set(participating) & set(view.live_brokers)
            begins = added_replicas(desired.cluster, view, live, capacity)
    record = replace(scaling.record, brokers=participating)
    cordons = cordon(_brokers_to_cordon(desired.cluster, view, participating), view, record)
    throttles = throttle(view, begins, scaling.policy.throttle_bytes_per_s, cordons.before)
    steps: list[Step] = [*cordons.sets]
    if balancing.new_plan is not None:
        steps.append(WriteRebalancePlan(desired.cluster, balancing.new_plan))
    steps += throttles.sets
    if begins:
        steps.append(ReassignPartitions(begins))
    steps += [*throttles.lifts, *cordons.lifts]
    after = replace(throttles.after, cordoned=cordons.after.cordoned)
    # A plan is recorded only after it can be read.
    known = balancing.record if balancing.new_plan is None else scaling.rebalance
    obstacle = moves if isinstance(moves, Waiting) else _obstacle(view, balancing)
    return ScalingPlan(
        steps=tuple(steps),
        obstacle=obstacle,
        operation=_operation(desired, observed, view, balancing, steps, obstacle),
        before=replace(scaling, record=throttles.before, rebalance=known),
        after=replace(scaling, record=after, rebalance=balancing.record),
    )


def needs_settings(desired: DesiredCluster, view: ClusterView) -> bool:
    """Tell whether own configs of brokers and topics are needed, because some are to be set or removed."""
    scaling = desired.cluster.scaling
    may_move = scaling.policy.throttle_bytes_per_s is not None and (
        any(it.is_moving for it in view.partitions)
        or bool(lacking_replicas(desired.cluster, view, view.live_brokers))
        or (scaling.rebalance is not None and scaling.rebalance.phase is not RebalancePhase.DONE)
    )
    is_cordoning = scaling.policy.on_scale_up is OnScaleUp.NONE and bool(newcomers(desired))
    return may_move or is_cordoning or any(surplus_name(desired.cluster, node) for node in view.live_brokers)


def throttled_topics(desired: DesiredCluster, view: ClusterView, lookup: ObservedRebalance) -> list[str]:
    """Return the topics whose lists of throttled replicas may have to be changed."""
    if desired.cluster.scaling.policy.throttle_bytes_per_s is None:
        return []
    topics = {move.partition.topic for move in lookup.stored or ()}
    leaving = {node.node_id for node in desired.nodes if node.is_leaving}
    topics |= {it.partition.topic for it in view.partitions if it.is_moving or leaving & set(it.replicas)}
    topics |= {it.partition.topic for it in lacking_replicas(desired.cluster, view, view.live_brokers)}
    return sorted(topics)


def _participating(desired: DesiredCluster, view: ClusterView, balancing: Rebalancing) -> tuple[int, ...]:
    """Return the brokers of the spec that participate."""
    wanted, scaling = [node.node_id for node in desired.brokers], desired.cluster.scaling
    if scaling.record.brokers is None:
        return tuple(sorted(wanted))
    new = set(newcomers(desired)) & set(view.live_brokers)
    if scaling.policy.on_scale_up is OnScaleUp.NONE:
        new &= {node for partition in view.partitions for node in partition.target}
    elif scaling.policy.on_scale_up is OnScaleUp.REBALANCE:
        known = balancing.record
        names = f"ScaleUp {','.join(map(str, newcomers(desired)))}"
        is_done = known is not None and known.request == names and known.phase is RebalancePhase.DONE
        new = new if is_done else set()
    return tuple(sorted((set(scaling.record.brokers) | new) & set(wanted)))


def _brokers_to_cordon(cluster: Cluster, view: ClusterView, participating: tuple[int, ...]) -> set[int]:
    """Return the brokers that get no new partitions: leaving ones, until they stop, and those that wait for moves."""
    leaving = {node for node in view.live_brokers if surplus_name(cluster, node) is not None}
    if cluster.scaling.policy.on_scale_up is not OnScaleUp.NONE:
        return leaving
    return leaving | (set(view.live_brokers) & set(cluster.broker_ids)) - set(participating)


def _is_whole(desired: DesiredCluster, observed: Mapping[str, ObservedNode]) -> bool:
    """Tell whether every node is ready with its revision: a due restart comes before further moves."""
    return all(
        (seen := observed.get(node.name)) is not None
        and seen.state is NodeState.READY
        and seen.revision in (None, node.revision)
        for node in desired.staying
    )


def _obstacle(view: ClusterView, balancing: Rebalancing) -> Underway | None:
    moving = sum(partition.is_moving for partition in view.partitions)
    if balancing.is_running and balancing.record is not None:
        message = f"plan {balancing.record.id}: reassigning {len(balancing.under_way)} partitions"
        return Underway("Rebalancing", f"{message}, {len(balancing.left)} more to start")
    return Underway("Reassigning", f"reassigning {moving} partitions") if moving else None


def _operation(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView,
    balancing: Rebalancing,
    steps: list[Step],
    obstacle: Waiting | Underway | None,
) -> Operation | None:
    """Return the operation in progress; None without one."""
    cluster = desired.cluster
    moving = [partition for partition in view.partitions if partition.is_moving]
    begun = sum(len(step.targets) for step in steps if isinstance(step, ReassignPartitions))
    message = str(steps[0]) if steps else obstacle.message if obstacle is not None else ""
    operation = Operation(
        kind=OperationKind.REASSIGNMENT,
        target="",
        step="Moving",
        message=message,
        left=len(moving) + begun,
        blocked_by=tuple(str(partition.partition) for partition in moving),
        generation=cluster.metadata.generation,
        takes_step=bool(steps),
    )
    sizes = ",".join(f"{pool.name}:{pool.nodes}" for pool in cluster.pools)
    surplus = {name for node in view.brokers if (name := surplus_name(cluster, node)) is not None}
    surplus |= observed.keys() - {node.name for node in desired.staying}
    if surplus:
        held = sum(any(surplus_name(cluster, node) for node in it.replicas) for it in view.partitions)
        step, names = "Draining" if held else "Stopping", tuple(sorted(surplus))
        text = message or f"{', '.join(names)} hold nothing and are removed"
        kind = OperationKind.SCALE_DOWN
        return replace(operation, kind=kind, target=sizes, step=step, message=text, nodes=names, left=held)
    absent = [node.name for node in desired.brokers if node.node_id in _absent(desired, view)]
    if absent:
        text = f"waiting for {', '.join(absent)} to join"
        kind, left = OperationKind.SCALE_UP, len(absent)
        return replace(
            operation,
            kind=kind,
            target=sizes,
            step="Joining",
            message=text,
            nodes=tuple(absent),
            left=left,
            blocked_by=(),
        )
    if balancing.is_running and balancing.record is not None:
        left, target = len(balancing.left) + len(balancing.under_way), balancing.record.id
        return replace(operation, kind=OperationKind.REBALANCE, target=target, left=left)
    return operation if moving or begun else None


def _absent(desired: DesiredCluster, view: ClusterView) -> set[int]:
    return set(newcomers(desired)) - set(view.live_brokers)
