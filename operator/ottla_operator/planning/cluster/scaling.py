"""More brokers and fewer, and partitions that move for it: what to do, what goes on, and what to remember. Pure.

Brokers that leave are cordoned, then drained; brokers that come take part at once, after a rebalance, or when somebody
moves something there (``spec.scaling.onScaleUp``). Whatever moves is throttled if the spec says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.types import TopicPartition
from ottla_operator.model.conditions import Refused, Underway, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.operation import Operation, OperationKind
from ottla_operator.model.scaling import OnScaleUp, RebalancePhase, Scaling
from ottla_operator.planning.cluster.cordons import cordon
from ottla_operator.planning.cluster.draining import drain, surplus_name
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance, Rebalancing, newcomers, rebalance
from ottla_operator.planning.cluster.throttling import throttle
from ottla_operator.planning.plan import Step
from ottla_operator.planning.steps.cluster import WriteRebalancePlan
from ottla_operator.planning.steps.topic import MOVES_MAX, ReassignPartitions
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState, ObservedNode


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPlan:
    """See the module."""

    steps: tuple[Step, ...] = ()
    obstacle: Waiting | Underway | None = None
    operation: Operation | None = None
    before: Scaling
    """To be remembered before the first step."""
    after: Scaling
    """To be remembered when all steps were done."""


def plan_scaling(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView,
    lookup: ObservedRebalance,
) -> ScalingPlan | Refused:
    """Return what to do about brokers that come and go, and about a rebalance.

    Args:
        desired: the nodes that the spec asks for, and those that leave.
        observed: nodes as their host sees them, by name.
        view: what brokers say, with what is set on them where `needs_settings` asked for it.
        lookup: the plan that is there, and what a new one needs.
    """
    moves = drain(desired, view)
    if isinstance(moves, Refused):
        return moves
    scaling, balancing = desired.cluster.scaling, rebalance(desired, view, lookup)
    begins: Mapping[TopicPartition, tuple[int, ...]] = {}
    if isinstance(moves, ReassignPartitions):
        begins = moves.targets
    elif moves is None and _is_whole(desired, observed):
        room = MOVES_MAX - sum(partition.is_moving for partition in view.partitions)
        begins = {move.partition: move.after for move in balancing.left[: max(room, 0)]}
    taking_part = _taking_part(desired, view, balancing)
    record = replace(scaling.record, brokers=taking_part)
    cordons = cordon(_to_be_cordoned(desired.cluster, view, taking_part), view, record)
    throttles = throttle(view, begins, scaling.policy.throttle_bytes_per_s, cordons.before)
    steps: list[Step] = [*cordons.sets]
    if balancing.new_plan is not None:
        steps.append(WriteRebalancePlan(desired.cluster, balancing.new_plan))
    steps += throttles.sets
    if begins:
        steps.append(ReassignPartitions(begins))
    steps += [*throttles.lifts, *cordons.lifts]
    after = replace(throttles.after, cordoned=cordons.after.cordoned)
    # Whoever is told of a plan finds it.
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
    """Tell whether what is set on brokers and topics has to be known: something is to be set there."""
    scaling = desired.cluster.scaling
    may_move = scaling.policy.throttle_bytes_per_s is not None and (
        any(it.is_moving for it in view.partitions)
        or (scaling.rebalance is not None and scaling.rebalance.phase is not RebalancePhase.DONE)
    )
    holds_back = scaling.policy.on_scale_up is OnScaleUp.NONE and bool(newcomers(desired))
    return may_move or holds_back or any(surplus_name(desired.cluster, node) for node in view.live_brokers)


def throttled_topics(desired: DesiredCluster, view: ClusterView, lookup: ObservedRebalance) -> list[str]:
    """Return the topics whose lists of throttled replicas may have to be changed."""
    if desired.cluster.scaling.policy.throttle_bytes_per_s is None:
        return []
    topics = {move.partition.topic for move in lookup.stored or ()}
    leaving = {node.node_id for node in desired.nodes if node.is_leaving}
    topics |= {it.partition.topic for it in view.partitions if it.is_moving or leaving & set(it.replicas)}
    return sorted(topics)


def _taking_part(desired: DesiredCluster, view: ClusterView, balancing: Rebalancing) -> tuple[int, ...]:
    """Return the brokers that take part, of those that the spec asks for."""
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


def _to_be_cordoned(cluster: Cluster, view: ClusterView, taking_part: tuple[int, ...]) -> set[int]:
    """Return the brokers that shall get no new partitions: who leaves, to the last moment, and who waits for moves."""
    leaving = {node for node in view.live_brokers if surplus_name(cluster, node) is not None}
    if cluster.scaling.policy.on_scale_up is not OnScaleUp.NONE:
        return leaving
    return leaving | (set(view.live_brokers) & set(cluster.broker_ids)) - set(taking_part)


def _is_whole(desired: DesiredCluster, observed: Mapping[str, ObservedNode]) -> bool:
    """Tell whether every node runs as it shall: a restart that is due comes before further moves."""
    return all(
        (seen := observed.get(node.name)) is not None
        and seen.state is NodeState.READY
        and seen.revision in (None, node.revision)
        for node in desired.staying
    )


def _obstacle(view: ClusterView, balancing: Rebalancing) -> Underway | None:
    moving = sum(partition.is_moving for partition in view.partitions)
    if balancing.is_running and balancing.record is not None:
        words = f"plan {balancing.record.id}: {len(balancing.under_way)} partitions are on the move"
        return Underway("Rebalancing", f"{words}, {len(balancing.left)} are to come")
    return Underway("Reassigning", f"{moving} partitions are on the move") if moving else None


def _operation(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView,
    balancing: Rebalancing,
    steps: list[Step],
    obstacle: Waiting | Underway | None,
) -> Operation | None:
    """Return what goes on; None when nothing does."""
    cluster = desired.cluster
    moving = [partition for partition in view.partitions if partition.is_moving]
    message = str(steps[0]) if steps else obstacle.message if obstacle is not None else ""
    operation = Operation(
        kind=OperationKind.REASSIGNMENT,
        target="",
        step="Moving",
        message=message,
        left=len(moving),
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
        words = message or f"{', '.join(names)} hold nothing and go"
        kind = OperationKind.SCALE_DOWN
        return replace(operation, kind=kind, target=sizes, step=step, message=words, nodes=names, left=held)
    absent = [node.name for node in desired.brokers if node.node_id in _absent(desired, view)]
    if absent:
        words = f"waiting for {', '.join(absent)} to join"
        kind, left = OperationKind.SCALE_UP, len(absent)
        return replace(
            operation,
            kind=kind,
            target=sizes,
            step="Joining",
            message=words,
            nodes=tuple(absent),
            left=left,
            blocked_by=(),
        )
    if balancing.is_running and balancing.record is not None:
        left, target = len(balancing.left) + len(balancing.under_way), balancing.record.id
        return replace(operation, kind=OperationKind.REBALANCE, target=target, left=left)
    return operation if moving else None


def _absent(desired: DesiredCluster, view: ClusterView) -> set[int]:
    return set(newcomers(desired)) - set(view.live_brokers)
