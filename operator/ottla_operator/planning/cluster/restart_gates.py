"""Gates of restarts: nodes that are down or behind, and partitions or the quorum that a stop would break. Pure.

Every gate returns a `Blocker`, which names what the restart waits for; None if it is open.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.ports.cluster_view import ClusterView, PartitionView
from ottla_operator.ports.nodes import NodeState, ObservedNode


@dataclass(frozen=True, slots=True)
class Blocker:
    """The reason why a restart waits, for people, and the names of the partitions, nodes or voters to wait for."""

    message: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.message


def admission_blocker(nodes: Iterable[DesiredNode], observed: Mapping[str, ObservedNode]) -> Blocker | None:
    """Return the first of ``nodes`` whose next run the host rejects: a stop would be an outage."""
    for node in nodes:
        seen = observed.get(node.name)
        if seen is not None and seen.rejection:
            return Blocker(f"waiting for the admission of node {node.name}: {seen.rejection}", (node.name,))
    return None


def node_blocker(
    desired: DesiredCluster, observed: Mapping[str, ObservedNode], besides: Set[int] = frozenset()
) -> Blocker | None:
    """Return the first node that is not ready, or unverified for clients outside; ``besides`` is left out."""
    for node in desired.nodes:
        if node.node_id in besides:
            continue
        seen = observed.get(node.name)
        if seen is None or seen.state is not NodeState.READY:
            state = "is not there" if seen is None else seen.message or f"is {seen.state.value}"
            return Blocker(f"waiting for node {node.name}: {state}", (node.name,))
        if seen.unverified:
            return Blocker(f"waiting for node {node.name}: its {seen.unverified}", (node.name,))
    return None


def cluster_blocker(
    desired: DesiredCluster, view: ClusterView | None, besides: Set[int] = frozenset()
) -> Blocker | None:
    """Return why no node may be restarted; None if the cluster is whole, apart from ``besides``."""
    if view is None:
        return Blocker("waiting for brokers to respond") if len(desired.nodes) > 1 else None
    for node in desired.brokers:
        if view.brokers.get(node.node_id, True) and node.node_id not in besides:
            return Blocker(f"waiting for broker {node.node_id} to join the cluster", (node.name,))
    behind = [str(voter.node_id) for voter in view.voters if not voter.is_caught_up and voter.node_id not in besides]
    if behind:
        names = tuple(f"voter {number}" for number in behind)
        return Blocker(f"waiting for voters {', '.join(behind)} to follow the metadata log", names)
    lagging = [it for it in view.partitions if it.lagging - besides]
    if lagging:
        first = lagging[0]
        message = (
            f"waiting for {len(lagging)} partitions to have all replicas in sync "
            f"(first: {first.partition}, in sync {sorted(first.isr)} of {sorted(first.replicas)})"
        )
        return Blocker(message, tuple(str(it.partition) for it in lagging))
    return None


def availability_blocker(nodes: Collection[DesiredNode], view: ClusterView | None) -> Blocker | None:
    """Return what would be unavailable while all of ``nodes`` are down; None if nothing would."""
    if view is None:
        return None
    for node in nodes:
        reason = quorum_loss_reason(node.node_id, view) if node.is_controller else None
        if reason is not None:
            return Blocker(reason)
    down = {node.node_id for node in nodes if not view.brokers.get(node.node_id, True)}
    broken = [(it, left) for it in view.partitions if (left := _too_few_left(it, down, view)) is not None]
    if not broken:
        return None
    partition, left = broken[0]
    brokers = f"broker {min(down)}" if len(down) == 1 else f"brokers {', '.join(map(str, sorted(down)))}"
    message = (
        f"waiting for partition {partition.partition}: without {brokers} it would have "
        f"{left} replicas in sync, and it needs {view.min_in_sync(partition)}"
    )
    return Blocker(message, tuple(str(it.partition) for it, _ in broken))


def _too_few_left(partition: PartitionView, down: Set[int], view: ClusterView) -> int | None:
    """Return how many in-sync replicas ``partition`` would have without ``down``; None if those are enough."""
    if not down & set(partition.isr):
        return None
    left = sum(node not in down and not view.brokers.get(node, True) for node in partition.isr)
    return left if left < view.min_in_sync(partition) else None


def quorum_loss_reason(node_id: int, view: ClusterView) -> str | None:
    """Return why the quorum needs this voter now; None if it does not, or has lost its majority anyway."""
    if all(voter.node_id != node_id for voter in view.voters):
        return None
    others = [voter for voter in view.voters if voter.node_id != node_id]
    needed = min(len(view.voters) // 2 + 1, len(others))
    ready = [voter for voter in others if voter.is_caught_up]
    if len(ready) < needed:
        behind = ", ".join(str(voter.node_id) for voter in others if not voter.is_caught_up)
        return f"waiting for the quorum: voters {behind} are behind, and {needed} others are needed"
    return None
