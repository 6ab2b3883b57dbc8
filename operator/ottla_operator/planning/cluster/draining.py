"""Nodes that are no longer in the spec: their partitions move to other brokers, then they are removed. Pure.

A broker is drained by moving its replicas, a batch at a time; it is stopped once it has none and does not vote, and
unregistered once it is fenced. Each observation shows what is left to do, so no record is needed.
"""

from collections.abc import Mapping

from ottla.client.assignment import Load, without
from ottla.types import TopicPartition
from ottla_operator.model.conditions import Rejected, Waiting
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster, node_name, node_of_id, node_of_name
from ottla_operator.planning.cluster.rolling import is_running
from ottla_operator.planning.steps.cluster import UnregisterBroker
from ottla_operator.planning.steps.topic import MOVES_MAX, ReassignPartitions
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.ports.nodes import NodeState, ObservedNode


def leaving_nodes(cluster: Cluster, observed: Mapping[str, ObservedNode], view: ClusterView | None) -> tuple[str, ...]:
    """Return the names of the nodes beyond the spec that still have to run.

    While no broker responds, those are all nodes of the host, running or not: their partitions are unknown, and the
    quorum may need their votes. Only a node that was stopped for good is known to hold nothing.
    """
    if view is None:
        there = (node.name for node in observed.values() if node.state is not NodeState.STOPPING)
        return tuple(name for name in sorted(there) if _is_surplus(cluster, name))
    holders = {node for partition in view.partitions for node in partition.replicas}
    holders |= {voter.node_id for voter in view.voters}
    # A config of a broker can be removed only while it runs; otherwise the next broker with its id would have it.
    holders |= set(cluster.scaling.record.throttled_brokers) & set(view.live_brokers)
    return tuple(sorted(name for node in holders if (name := surplus_name(cluster, node)) is not None))


def drain(desired: DesiredCluster, view: ClusterView) -> ReassignPartitions | Waiting | Rejected | None:
    """Return the next moves away from leaving brokers, or why they wait; None if nothing is left to move."""
    leaving = {node.node_id: node.name for node in desired.nodes if node.is_leaving and node.is_broker}
    held = [partition for partition in view.partitions if any(node in leaving for node in partition.replicas)]
    if not held:
        return None
    staying = [node.node_id for node in desired.brokers]
    too_wide = [partition for partition in held if len(partition.target) > len(staying)]
    if too_wide:
        return _rejection(too_wide, leaving, len(staying))
    load = Load(_takers(desired, view), (partition.target for partition in view.partitions), view.racks)
    to_move = [partition for partition in held if any(node in leaving for node in partition.target)]
    capacity = MOVES_MAX - sum(partition.is_moving for partition in view.partitions)
    moves: dict[TopicPartition, tuple[int, ...]] = {}
    for partition in to_move[: max(capacity, 0)]:
        target = without(partition.target, leaving, load)
        if target is None:
            return Waiting("Draining", f"waiting for brokers that can take partition {partition.partition}")
        moves[partition.partition] = target
    if moves:
        return ReassignPartitions(moves)
    names = ", ".join(leaving[node] for node in sorted(leaving))
    return Waiting("Draining", f"{len(held)} partitions are being moved away from {names}")


def next_broker_to_unregister(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], view: ClusterView
) -> UnregisterBroker | None:
    """Return the next broker to unregister: one beyond the spec that is stopped for good, fenced, and holds nothing.

    A node that holds nothing may have to run for another one of its pool with a higher ordinal that does.
    """
    held = {node for partition in view.partitions for node in partition.replicas}
    held |= {node.node_id for node in desired.nodes}
    for node, is_fenced in sorted(view.brokers.items()):
        name = surplus_name(desired.cluster, node)
        if is_fenced and name is not None and node not in held and not is_running(observed.get(name)):
            return UnregisterBroker(node)
    return None


def surplus_name(cluster: Cluster, node_id: int) -> str | None:
    """Return the name of the node with this id, if it is surplus; None if the spec has it, or no pool ever had."""
    found = node_of_id(cluster, node_id)
    if found is None or found[1] < found[0].nodes:
        return None
    return node_name(cluster, *found)


def _takers(desired: DesiredCluster, view: ClusterView) -> list[int]:
    """Return the brokers that take over replicas: participating ones, or all that stay if those are too few."""
    live = [node.node_id for node in desired.brokers if not view.brokers.get(node.node_id, True)]
    participating = desired.cluster.scaling.record.brokers
    chosen = live if participating is None else [node for node in live if node in participating]
    needed = max((len(partition.target) for partition in view.partitions), default=0)
    return chosen if len(chosen) >= needed else live


def _rejection(partitions: list[PartitionView], leaving: Mapping[int, str], brokers: int) -> Rejected:
    topics = sorted({partition.partition.topic for partition in partitions})
    factor = max(len(partition.target) for partition in partitions)
    return Rejected(
        "ReplicationFactorTooLarge",
        f"{', '.join(leaving[node] for node in sorted(leaving))} cannot go: topic {', '.join(topics[:3])}"
        f"{f' and {len(topics) - 3} more' if len(topics) > 3 else ''} has replication factor {factor}, and {brokers} "
        "brokers would be left; lower the replication factor, or keep more nodes",
    )


def _is_surplus(cluster: Cluster, name: str) -> bool:
    found = node_of_name(cluster, name)
    return found is not None and found[1] >= found[0].nodes
