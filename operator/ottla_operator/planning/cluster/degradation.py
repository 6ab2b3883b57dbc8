"""The condition Degraded of a Cluster: capacity or redundancy below the spec. Pure.

Intended outages do not count: nodes of `Operation.nodes`, leaving nodes, replicas that are being added. A cluster that
has not come up yet is not degraded.
"""

from collections.abc import Collection, Mapping, Set

from ottla_operator.model.conditions import QUORUM_LOST, Degradation
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.ports.nodes import KUBERNETES_NODE_LOST, NodeState, ObservedNode

_SHOWN_MAX = 3
_GONE = frozenset({NodeState.STOPPED, NodeState.STOPPING, NodeState.FAILED})


def degradation(
    desired: DesiredCluster,
    observed: Mapping[str, ObservedNode],
    view: ClusterView | None,
    on_purpose: Collection[str],
    *,
    is_leaderless: bool = False,
) -> Degradation | None:
    """Return the most important degradation; None without any.

    Args:
        desired: the nodes in the spec.
        observed: the host's view of nodes, by name.
        view: the brokers' view; None while no broker responds.
        on_purpose: names of the nodes that the operator works on (`Operation.nodes`).
        is_leaderless: a broker responds, but the metadata quorum has no leader; there is no view then.
    """
    if desired.cluster.initial_controllers:
        return None
    down = [
        node
        for node in desired.staying
        if node.name not in on_purpose and _is_down(node, observed.get(node.name), view)
    ]
    if view is None and not down and any(name in on_purpose for name in observed):
        return None
    if view is None and (lost := _lost_quorum(desired, observed, is_leaderless=is_leaderless)) is not None:
        return lost
    if down:
        return Degradation(
            "NodesDown", "; ".join(_of_node(node, observed.get(node.name)) for node in down[:_SHOWN_MAX])
        )
    if view is None:
        return Degradation("BrokersUnreachable", "no broker responds")
    ours = {node.node_id for node in desired.nodes if node.name in on_purpose or node.is_leaving}
    return _of_quorum(desired, view, ours) or _of_partitions(view, ours)


def _is_down(node: DesiredNode, seen: ObservedNode | None, view: ClusterView | None) -> bool:
    """Tell whether ``node`` has served before and does not now."""
    if seen is not None and seen.state is NodeState.READY:
        return node.is_broker and view is not None and view.brokers.get(node.node_id, False)
    if view is None or (seen is not None and seen.state is NodeState.UNREADY):
        return True
    return node.node_id in view.brokers or any(voter.node_id == node.node_id for voter in view.voters)


def _of_node(node: DesiredNode, seen: ObservedNode | None) -> str:
    if seen is not None and seen.state is NodeState.READY:
        return f"node {node.name}: it is fenced"
    return f"node {node.name}: {'it is not there' if seen is None else seen.message or seen.state.value}"


def _lost_quorum(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], *, is_leaderless: bool
) -> Degradation | None:
    """Return that the quorum has no leader: by a broker, or because most controllers do not run and no broker responds.

    While a node is ready only the brokers' report counts: they alone know the voters.
    """
    controllers = desired.controllers
    majority = len(controllers) // 2 + 1
    gone = [it for it in controllers if _is_gone(observed.get(it.name))]
    silent = [it for it in controllers if it in gone or observed[it.name].state is NodeState.UNREADY]
    any_ready = any(it.state is NodeState.READY for it in observed.values())
    if not is_leaderless and (any_ready or len(silent) < majority):
        return None
    if len(gone) >= majority:
        named, words = gone, "do not run"
        advice = f"bring back at least {len(gone) + majority - len(controllers)} of them with its own volume"
    else:
        named, words = silent, "are not ready"
        advice = "check in the controllers' logs whether they reach each other"
    count = f"{len(named)} of {len(controllers)} controllers {words}: " if named else ""
    nodes = "; ".join(_of_node(it, observed.get(it.name)) for it in named) or f"all {len(controllers)} controllers run"
    return Degradation(
        QUORUM_LOST,
        f"the metadata quorum has no leader: {count}{nodes}; {advice}: until then nothing can be changed and no "
        "partition gets another leader",
    )


def _is_gone(seen: ObservedNode | None) -> bool:
    """Tell whether the node cannot follow the quorum; a starting one may do so already."""
    return seen is None or seen.state in _GONE or seen.reason == KUBERNETES_NODE_LOST


def _of_quorum(desired: DesiredCluster, view: ClusterView, ours: Set[int]) -> Degradation | None:
    wanted = {node.node_id for node in desired.controllers} - ours
    behind = [str(voter.node_id) for voter in view.voters if not voter.is_caught_up and voter.node_id in wanted]
    if behind:
        return Degradation("VotersBehind", f"voters {', '.join(behind)} do not follow the metadata log")
    return None


def _of_partitions(view: ClusterView, ours: Set[int]) -> Degradation | None:
    for reason, words, found in (
        ("PartitionsOffline", "have no leader", [it for it in view.partitions if _is_offline(it, ours)]),
        ("UnderReplicated", "lack replicas in sync", [it for it in view.partitions if _lacks(it, ours)]),
    ):
        if found:
            names = ", ".join(str(it.partition) for it in found[:_SHOWN_MAX])
            more = f" and {len(found) - _SHOWN_MAX} more" if len(found) > _SHOWN_MAX else ""
            return Degradation(reason, f"{len(found)} partitions {words}: {names}{more}")
    return None


def _is_offline(partition: PartitionView, ours: Set[int]) -> bool:
    return partition.leader < 0 and not set(partition.replicas) <= ours


def _lacks(partition: PartitionView, ours: Set[int]) -> bool:
    return bool(partition.lagging - ours - set(partition.adding))
