"""Which node is restarted next, and what a restart waits for. Pure.

Controllers first and the active one last, then brokers. Nobody is stopped while anything else is down, lags or moves:
a restart never takes a partition below ``min.insync.replicas``, or the quorum its majority. Only who has not
come up, with an old configuration that may be the reason, is restarted whatever the others do.
"""

from collections.abc import Mapping, Set

from ottla_operator.model.conditions import Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.reconcile.nodes import NodeState, ObservedNode
from ottla_operator.reconcile.steps import RestartNode
from ottla_operator.reconcile.view import ClusterView

_ROLL_WAITING = "RollWaiting"


def next_restart(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], view: ClusterView | None
) -> RestartNode | Waiting | None:
    """Return the next restart, or what it waits for; None when no node has to be restarted."""
    running = [(node, observed[node.name]) for node in desired.staying if is_running(observed.get(node.name))]
    outdated = [(node, seen) for node, seen in running if seen.revision not in (None, node.revision)]
    if not outdated:
        return None
    broken = [(node, seen) for node, seen in outdated if seen.state is not NodeState.READY]
    if broken:
        hung = {node.node_id for node, seen in broken if _is_hung(node, seen, view)}
        reasons = [_what_a_broken_one_waits_for(node, hung, desired, observed, view) for node, _ in broken]
        number = reasons.index(None) if None in reasons else 0
        (node, seen), reason = broken[number], reasons[number]
        if reason is not None:
            words = f"node {node.name} has an old configuration and is {seen.state.value}"
            return Waiting(_ROLL_WAITING, f"{words}; {reason}")
        return RestartNode(node, f"it is {seen.state.value} with an old configuration")
    node = min((node for node, _ in outdated), key=lambda node: _order(node, view))
    reason = _what_is_not_ready(desired, observed) or _what_is_wrong(desired, view)
    reason = reason or _what_a_stop_would_break(node, view)
    if reason is not None:
        return Waiting(_ROLL_WAITING, f"node {node.name} has to be restarted; {reason}")
    return RestartNode(node, "its configuration changed")


def is_running(node: ObservedNode | None) -> bool:
    return node is not None and node.state is not NodeState.STOPPED


def _order(node: DesiredNode, view: ClusterView | None) -> tuple[bool, bool, int]:
    is_active = view is not None and node.node_id == view.controller_id
    return not node.is_controller, is_active, node.node_id


def _what_a_broken_one_waits_for(
    node: DesiredNode,
    hung: Set[int],
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
) -> str | None:
    """Return why ``node``, which is not ready, must not be restarted yet; None when it may.

    Those that hang do not wait for each other, only for the one of them that has been restarted.
    """
    seen = observed[node.name]
    if seen.state is NodeState.FAILED:
        return None
    if seen.state is NodeState.UNREADY or _is_let_in(node, view):
        besides = hung if node.node_id in hung else {node.node_id}
        reason = _what_is_not_ready(desired, observed, besides) or _what_is_wrong(desired, view, besides)
        if reason is not None:
            return reason
    return _what_a_stop_would_break(node, view)


def _is_let_in(node: DesiredNode, view: ClusterView | None) -> bool:
    return node.is_broker and view is not None and not view.brokers.get(node.node_id, True)


def _is_hung(node: DesiredNode, seen: ObservedNode, view: ClusterView | None) -> bool:
    """Tell whether a node that has served is out, as brokers say; one that lost the quorum's leader serves on."""
    if view is None or seen.state is not NodeState.UNREADY or _is_let_in(node, view):
        return False
    return not any(voter.node_id == node.node_id and voter.is_caught_up for voter in view.voters)


def _what_is_not_ready(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], besides: Set[int] = frozenset()
) -> str | None:
    for node in desired.nodes:
        if node.node_id in besides:
            continue
        seen = observed.get(node.name)
        if seen is None or seen.state is not NodeState.READY:
            words = "is not there" if seen is None else seen.message or f"is {seen.state.value}"
            return f"waiting for node {node.name}: {words}"
    return None


def _what_is_wrong(desired: DesiredCluster, view: ClusterView | None, besides: Set[int] = frozenset()) -> str | None:
    """Return what keeps any node from being restarted; None when the cluster is whole, ``besides`` left out."""
    if view is None:
        return "waiting for brokers to answer" if len(desired.nodes) > 1 else None
    for node in desired.brokers:
        if view.brokers.get(node.node_id, True) and node.node_id not in besides:
            return f"waiting for broker {node.node_id} to join the cluster"
    lagging = [it for it in view.partitions if it.lagging - besides]
    if lagging:
        first = lagging[0]
        return (
            f"waiting for {len(lagging)} partitions to have all replicas in sync "
            f"(first: {first.partition}, in sync {sorted(first.isr)} of {sorted(first.replicas)})"
        )
    return None


def _what_a_stop_would_break(node: DesiredNode, view: ClusterView | None) -> str | None:
    """Return what would be unavailable while ``node`` is down; None when nothing would."""
    if view is None:
        return None
    reason = quorum_without(node.node_id, view) if node.is_controller else None
    if reason is not None or view.brokers.get(node.node_id, True):
        return reason
    for partition in view.partitions:
        if node.node_id not in partition.isr:
            continue
        left = [other for other in partition.isr if other != node.node_id and not view.brokers.get(other, True)]
        needed = view.min_in_sync(partition)
        if len(left) < needed:
            return (
                f"waiting for partition {partition.partition}: without broker {node.node_id} it would have "
                f"{len(left)} replicas in sync, and it needs {needed}"
            )
    return None


def quorum_without(node_id: int, view: ClusterView) -> str | None:
    """Return why the quorum cannot do without a voter for a while; None when it can, or cannot help it."""
    if all(voter.node_id != node_id for voter in view.voters):
        return None
    others = [voter for voter in view.voters if voter.node_id != node_id]
    needed = min(len(view.voters) // 2 + 1, len(others))
    ready = [voter for voter in others if voter.is_caught_up]
    if len(ready) < needed:
        behind = ", ".join(str(voter.node_id) for voter in others if not voter.is_caught_up)
        return f"waiting for the quorum: voters {behind} are behind, and {needed} others are needed"
    return None
