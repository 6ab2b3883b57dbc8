"""Rolling restarts: the nodes to restart next, and what they wait for. Pure.

Controllers first and the active one last, one at a time; then brokers, those of one rack together if the policy allows
it and no partition would lack replicas. No node is stopped while another is down, lags or is being reassigned: a
restart never takes a partition below ``min.insync.replicas``, nor the majority from the quorum. Only a node that has
not become ready, perhaps because of its old configuration, is restarted whatever state the others are in. None is
stopped whose next run the host rejects.

A node that does not come up with the new spec is the last one that was touched: the roll halts.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from ottla_operator.model import revision
from ottla_operator.model.conditions import Halted, Obstacle, Underway, Waiting
from ottla_operator.model.images import rollback_patch
from ottla_operator.model.maintenance import WindowState
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.model.operation import Operation, OperationKind, Record
from ottla_operator.planning.cluster.restart_gates import (
    Blocker,
    admission_blocker,
    availability_blocker,
    cluster_blocker,
    node_blocker,
)
from ottla_operator.planning.steps.cluster import RestartNode
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState, ObservedNode

_ROLL_WAITING = "RollWaiting"
ROLL_HALTED = "RollHalted"
FAILED, STUCK = "Failed", "Stuck"
"""Steps of a halted roll: until the spec changes, and as long as the node is stuck."""
_STUCK_AFTER_S = 600
"""How long a node may take to become ready; the log of one that crashed may be long."""


@dataclass(frozen=True, slots=True)
class Roll:
    """Restarts, obstacle and operation of a roll."""

    restarts: tuple[RestartNode, ...] = ()
    obstacle: Obstacle | None = None
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Why no node is restarted now, and the names of what the restart waits for."""

    obstacle: Waiting | Underway
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollTimings:
    """Durations and maintenance windows of a roll."""

    step_age_s: float = 0.0
    """How long the recorded operation has been at its step."""
    windows: WindowState = field(default_factory=WindowState)


def roll(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
    record: Record | None,
    timings: RollTimings,
    *,
    comes_first: str | None = None,
) -> Roll:
    """Return the next restarts, their obstacle, and the operation that they are part of.

    Args:
        desired: the nodes in the spec.
        observed: the host's view of nodes, by name.
        view: the brokers' view; None while no broker responds.
        record: the recorded operation in progress, of any kind.
        timings: durations and maintenance windows.
        comes_first: another step of this plan, which a restart waits for.
    """
    outdated = [node for node in desired.staying if _is_outdated(node, observed.get(node.name))]
    operation = Operation(
        kind=OperationKind.ROLL,
        target=",".join(sorted({f"{node.pool}:{node.revision}" for node in desired.staying})),
        step="Waiting",
        message="",
        left=len(outdated),
        generation=desired.cluster.metadata.generation,
    )
    record = record if record is not None and record.id == operation.id else None
    if record is None and not outdated:
        return Roll()
    at = [it for it in desired.staying if record and it.name in record.nodes and is_running(observed.get(it.name))]
    operation = replace(operation, nodes=tuple(it.name for it in at))
    halted = _halted(desired, observed, operation, record, timings.step_age_s)
    if halted is not None:
        return halted
    if not outdated:
        return _settling(desired, observed, view, operation)
    if comes_first is not None:
        return Roll(operation=replace(operation, message=f"next: {comes_first}"))
    found = next_restarts(desired, observed, view, closed=timings.windows.closed)
    if isinstance(found, Wait):
        is_on_its_way = any(not _is_ready(observed.get(it.name)) for it in at)
        is_closed, message = isinstance(found.obstacle, Underway), found.obstacle.message
        step = "WindowClosed" if is_closed else "Restarting" if is_on_its_way else "Waiting"
        waiting = replace(operation, step=step, message=message, blocked_by=found.names)
        return Roll(obstacle=found.obstacle, operation=waiting)
    message = "; ".join(map(str, found))
    nodes = tuple(it.node.name for it in found)
    operation = replace(operation, step="Restarting", message=message, nodes=nodes, takes_step=True)
    return Roll(found, Waiting("RestartingNode", message), operation)


def _settling(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], view: ClusterView | None, operation: Operation
) -> Roll:
    """Return the end of a roll: every node was restarted, and the last ones have to catch up."""
    blocker = node_blocker(desired, observed) or cluster_blocker(desired, view)
    if blocker is None:
        return Roll()
    waiting = Waiting(_ROLL_WAITING, f"every node was restarted; {blocker}")
    return Roll(
        obstacle=waiting,
        operation=replace(operation, step="Restarting", message=waiting.message, blocked_by=blocker.names),
    )


def _halted(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    operation: Operation,
    record: Record | None,
    step_age_s: float,
) -> Roll | None:
    """Return that the roll is halted; None if it may continue.

    A crashed node may look ready for a moment: only a change of the spec continues the roll. A late one, because its
    image cannot be pulled or there is no capacity for it, may still come up.
    """
    if record is None:
        return None
    if record.step == FAILED and record.generation == operation.generation:
        obstacle = Halted(ROLL_HALTED, record.message)
        return Roll(
            obstacle=obstacle, operation=replace(operation, step=FAILED, message=record.message, nodes=record.nodes)
        )
    is_late = record.step in ("Restarting", STUCK) and step_age_s >= _STUCK_AFTER_S
    for node in desired.staying:
        seen = observed.get(node.name)
        if seen is None or seen.revision != node.revision or _is_ready(seen):
            continue
        was_late = record.step == STUCK and node.name in record.nodes
        if seen.state is NodeState.FAILED or (node.name in operation.nodes and (is_late or was_late)):
            message = _rollback_advice(desired, node, seen)
            step = FAILED if seen.has_crashed else STUCK
            halted = replace(operation, step=step, message=message, nodes=(node.name,))
            return Roll(obstacle=Halted(ROLL_HALTED, message), operation=halted)
    return None


def _rollback_advice(desired: DesiredCluster, node: DesiredNode, seen: ObservedNode) -> str:
    failure = ": ".join(filter(None, (seen.reason, seen.message)))
    way, cluster = "put back what was changed in the spec", desired.cluster
    fields = rollback_patch(
        image=cluster.image,
        version=cluster.version,
        known_image=cluster.known_image,
        known_version=cluster.known_version,
    )
    if fields and cluster.known_image != desired.image:
        to_write = " and ".join(
            f"remove {field}" if value is None else f"write {field}: {value}" for field, value in fields.items()
        )
        way = f"{to_write}, which all nodes ran when they were last ready (kubectl ottla undo)"
        if cluster.image is None and "image" in fields:
            way += "; an image wins over version until it is removed again"
    return (
        f"node {node.name} does not come up with what the spec asks ({failure or seen.state.value}), and no other node "
        f"is restarted; correct the spec, or {way}"
    )


def next_restarts(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
    *,
    closed: str | None = None,
) -> tuple[RestartNode, ...] | Wait:
    """Return the next restarts, which are executed together, or why they wait; there are outdated nodes.

    ``closed`` is why restarts that are not urgent have to wait; those of broken nodes do not.
    """
    running = [(node, observed[node.name]) for node in desired.staying if is_running(observed.get(node.name))]
    outdated = [(node, seen) for node, seen in running if _is_outdated(node, seen)]
    broken = [(node, seen) for node, seen in outdated if seen.state is not NodeState.READY]
    if broken:
        return _restart_unready(broken, desired, observed, view)
    due = [(node, seen) for node, seen in outdated if closed is None or _is_requested(node, seen)]
    if not due:
        return Wait(Underway("WindowClosed", f"{len(outdated)} nodes have to be restarted; {closed}"))
    due.sort(key=lambda it: _order(it[0], view))
    node, _ = due[0]
    blocker = (
        admission_blocker(desired.nodes, observed)
        or node_blocker(desired, observed)
        or cluster_blocker(desired, view)
        or availability_blocker([node], view)
    )
    if blocker is not None:
        message = f"node {node.name} has to be restarted; {blocker}"
        return Wait(Waiting(_ROLL_WAITING, message), blocker.names)
    there = {it.name: seen for it, seen in due}
    return tuple(
        RestartNode(it, revision.describe_changes(there[it.name].parts, it.parts), there[it.name].uid)
        for it in _restart_batch([it for it, _ in due], desired, view)
    )


def is_running(node: ObservedNode | None) -> bool:
    return node is not None and node.state is not NodeState.STOPPED


def _is_ready(seen: ObservedNode | None) -> bool:
    return seen is not None and seen.state is NodeState.READY


def _is_outdated(node: DesiredNode, seen: ObservedNode | None) -> bool:
    return seen is not None and is_running(seen) and seen.revision not in (None, node.revision)


def _is_requested(node: DesiredNode, seen: ObservedNode) -> bool:
    """Tell whether an administrator requested the restart now, by the annotation."""
    return revision.RESTART in revision.changed_parts(seen.parts, node.parts)


def _order(node: DesiredNode, view: ClusterView | None) -> tuple[bool, bool, int]:
    is_active = view is not None and node.node_id == view.controller_id
    return not node.is_controller, is_active, node.node_id


def _restart_batch(due: list[DesiredNode], desired: DesiredCluster, view: ClusterView | None) -> list[DesiredNode]:
    """Return the first of ``due``, with the brokers of its rack that may be down together with it."""
    chosen, policy = due[:1], desired.cluster.rolling
    rack = view.racks.get(chosen[0].node_id) if view is not None else None
    if not policy.by_rack or rack is None or view is None or chosen[0].is_controller:
        return chosen
    for node in due[1:]:
        if len(chosen) == policy.max_unavailable:
            break
        if view.racks.get(node.node_id) == rack and availability_blocker([*chosen, node], view) is None:
            chosen.append(node)
    return chosen


def _restart_unready(
    broken: list[tuple[DesiredNode, ObservedNode]],
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
) -> tuple[RestartNode, ...] | Wait:
    """Return the restart of the first node that is not ready, has an old configuration, and may be restarted."""
    hung = {node.node_id for node, seen in broken if _is_hung(node, seen, view)}
    blockers = [_stalled_restart_reason(node, hung, desired, observed, view) for node, _ in broken]
    number = blockers.index(None) if None in blockers else 0
    (node, seen), blocker = broken[number], blockers[number]
    if blocker is not None:
        message = f"node {node.name} has an old configuration and is {seen.state.value}; {blocker}"
        return Wait(Waiting(_ROLL_WAITING, message), blocker.names)
    return (RestartNode(node, f"it is {seen.state.value} with an old configuration", seen.uid),)


def _stalled_restart_reason(
    node: DesiredNode,
    hung: Set[int],
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
) -> Blocker | None:
    """Return why ``node``, which is not ready, must not be restarted yet; None if it may.

    Hung nodes do not wait for each other, only for the one of them that has been restarted.
    """
    seen = observed[node.name]
    if seen.rejection:
        return admission_blocker([node], observed)
    if seen.state is NodeState.FAILED:
        return None
    if seen.state is NodeState.UNREADY or _is_unfenced(node, view):
        besides = hung if node.node_id in hung else {node.node_id}
        blocker = node_blocker(desired, observed, besides) or cluster_blocker(desired, view, besides)
        if blocker is not None:
            return blocker
    return availability_blocker([node], view)


def _is_unfenced(node: DesiredNode, view: ClusterView | None) -> bool:
    return node.is_broker and view is not None and not view.brokers.get(node.node_id, True)


def _is_hung(node: DesiredNode, seen: ObservedNode, view: ClusterView | None) -> bool:
    """Tell whether a node that was ready is fenced; one that only lost the quorum's leader still serves."""
    if view is None or seen.state is not NodeState.UNREADY or _is_unfenced(node, view):
        return False
    return not any(voter.node_id == node.node_id and voter.is_caught_up for voter in view.voters)
