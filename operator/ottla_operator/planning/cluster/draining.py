"""Nodes that the spec does not ask for any more: what they hold goes to others, then they go. Pure.

A broker is drained by moving its replicas, some at a time; it is stopped when it has none and does not vote, and
unregistered when it is fenced. Each look at the cluster says what is left to do, so nothing has to be remembered.
"""

from collections.abc import Mapping

from ottla.client.assignment import Load, without
from ottla.types import TopicPartition
from ottla_operator.model.conditions import Refused, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, node_name, node_of_id, node_of_name
from ottla_operator.planning.cluster.rolling import is_running
from ottla_operator.planning.steps.cluster import UnregisterBroker
from ottla_operator.planning.steps.topic import MOVES_MAX, ReassignPartitions
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.ports.nodes import NodeState, ObservedNode


def leaving_nodes(cluster: Cluster, observed: Mapping[str, ObservedNode], view: ClusterView | None) -> tuple[str, ...]:
    """Return the names of the nodes beyond the spec that still have to run.

    While no broker answers, those are all that the host has, whether they run or not: what they hold is not known, and
    nobody may answer before they vote again. Only who was stopped for good is known to hold nothing.
    """
    if view is None:
        there = (node.name for node in observed.values() if node.state is not NodeState.STOPPING)
        return tuple(name for name in sorted(there) if _is_surplus(cluster, name))
    holders = {node for partition in view.partitions for node in partition.replicas}
    holders |= {voter.node_id for voter in view.voters}
    # What was set on a broker can be taken away only while it runs, and would be found by whoever has its id next.
    holders |= set(cluster.scaling.record.throttled_brokers) & set(view.live_brokers)
    return tuple(sorted(name for node in holders if (name := surplus_name(cluster, node)) is not None))


def drain(desired: DesiredCluster, view: ClusterView) -> ReassignPartitions | Waiting | Refused | None:
    """Return the next moves away from leaving brokers, or what they wait for; None when nothing is left to move."""
    leaving = {node.node_id: node.name for node in desired.nodes if node.is_leaving and node.is_broker}
    held = [partition for partition in view.partitions if any(node in leaving for node in partition.replicas)]
    if not held:
        return None
    staying = [node.node_id for node in desired.brokers]
    too_wide = [partition for partition in held if len(partition.target) > len(staying)]
    if too_wide:
        return _refusal(too_wide, leaving, len(staying))
    load = Load(_takers(desired, view), (partition.target for partition in view.partitions), view.racks)
    to_move = [partition for partition in held if any(node in leaving for node in partition.target)]
    room = MOVES_MAX - sum(partition.is_moving for partition in view.partitions)
    moves: dict[TopicPartition, tuple[int, ...]] = {}
    for partition in to_move[: max(room, 0)]:
        target = without(partition.target, leaving, load)
        if target is None:
            return Waiting("Draining", f"waiting for brokers that can take partition {partition.partition}")
        moves[partition.partition] = target
    if moves:
        return ReassignPartitions(moves)
    names = ", ".join(leaving[node] for node in sorted(leaving))
    return Waiting("Draining", f"{len(held)} partitions are being moved away from {names}")


def forgotten(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], view: ClusterView
) -> UnregisterBroker | None:
    """Return the next broker to unregister: one beyond the spec that is stopped for good, fenced, and holds nothing.

    One that holds nothing itself may have to run for one that does, whose number in the pool is higher.
    """
    held = {node for partition in view.partitions for node in partition.replicas}
    held |= {node.node_id for node in desired.nodes}
    for node, is_fenced in sorted(view.brokers.items()):
        name = surplus_name(desired.cluster, node)
        if is_fenced and name is not None and node not in held and not is_running(observed.get(name)):
            return UnregisterBroker(node)
    return None


def surplus_name(cluster: Cluster, node_id: int) -> str | None:
    """Return the name of the node with this id, if the spec does not ask for it; None if it does, or never has."""
    found = node_of_id(cluster, node_id)
    if found is None or found[1] < found[0].nodes:
        return None
    return node_name(cluster, *found)


def _takers(desired: DesiredCluster, view: ClusterView) -> list[int]:
    """Return the brokers that take over: all that take part, or all that stay where those are too few."""
    live = [node.node_id for node in desired.brokers if not view.brokers.get(node.node_id, True)]
    taking_part = desired.cluster.scaling.record.brokers
    chosen = live if taking_part is None else [node for node in live if node in taking_part]
    needed = max((len(partition.target) for partition in view.partitions), default=0)
    return chosen if len(chosen) >= needed else live


def _refusal(partitions: list[PartitionView], leaving: Mapping[int, str], brokers: int) -> Refused:
    topics = sorted({partition.partition.topic for partition in partitions})
    factor = max(len(partition.target) for partition in partitions)
    return Refused(
        "ReplicationFactorTooLarge",
        f"{', '.join(leaving[node] for node in sorted(leaving))} cannot go: topic {', '.join(topics[:3])}"
        f"{f' and {len(topics) - 3} more' if len(topics) > 3 else ''} has replication factor {factor}, and {brokers} "
        "brokers would be left; lower the replication factor, or ask for more nodes",
    )


def _is_surplus(cluster: Cluster, name: str) -> bool:
    found = node_of_name(cluster, name)
    return found is not None and found[1] >= found[0].nodes
