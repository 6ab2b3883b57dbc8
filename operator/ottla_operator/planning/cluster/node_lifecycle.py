"""Which nodes are started and stopped, and which are awaited. Pure."""

from collections.abc import Collection, Iterator

from ottla_operator.model.conditions import Halted, Waiting
from ottla_operator.model.nodes import DesiredCluster, DesiredNode
from ottla_operator.planning.cluster.rolling import is_running
from ottla_operator.ports.nodes import POD_REJECTED, NodeState, ObservedNode
from ottla_operator.ports.observed_cluster import ObservedCluster


def surplus_nodes(desired: DesiredCluster, observed: ObservedCluster) -> list[ObservedNode]:
    """Return the nodes of the host that need not run any more, sorted by name."""
    wanted = {node.name for node in desired.nodes}
    return [observed.nodes[name] for name in sorted(observed.nodes.keys() - wanted)]


def nodes_to_stop(
    desired: DesiredCluster, observed: ObservedCluster, still_configured: Collection[str | None]
) -> list[ObservedNode]:
    """Return the surplus nodes to stop now; for ``still_configured`` another step comes first."""
    return [
        node
        for node in surplus_nodes(desired, observed)
        if node.state is not NodeState.STOPPING and node.name not in still_configured
    ]


def nodes_to_start(desired: DesiredCluster, observed: ObservedCluster) -> list[DesiredNode]:
    """Return the nodes to start; a node waits while a leaving node has its id."""
    held = {node.node_id: node.name for node in desired.nodes if node.is_leaving}
    return [
        node
        for node in desired.nodes
        if not is_running(observed.nodes.get(node.name)) and held.get(node.node_id, node.name) == node.name
    ]


def not_ready(desired: DesiredCluster, observed: ObservedCluster) -> Iterator[Waiting]:
    """Yield the wait for the first desired node that is not ready, then for each node that is stopping."""
    first = _first_not_ready(desired, observed)
    if first is not None:
        yield first
    for node in surplus_nodes(desired, observed):
        if node.state is NodeState.STOPPING:
            yield _waiting_for(node)


def rejected_node(desired: DesiredCluster, observed: ObservedCluster) -> Halted | None:
    """Return the rejection of the first desired node whose next run the host rejects; those that are down come first.

    The cause is in the spec or in the cluster of the host, and is for the user: waiting alone does not help.
    """
    rejected = [it for node in desired.nodes if (it := observed.nodes.get(node.name)) is not None and it.rejection]
    if not rejected:
        return None
    node = min(rejected, key=lambda it: it.reason != POD_REJECTED)
    more = f" and {len(rejected) - 1} more" if len(rejected) > 1 else ""
    if node.reason == POD_REJECTED:
        return Halted(POD_REJECTED, f"node {node.name}{more} cannot start: {node.rejection}")
    return Halted(POD_REJECTED, f"node {node.name}{more} is not stopped, as its new pod cannot start: {node.rejection}")


def _first_not_ready(desired: DesiredCluster, observed: ObservedCluster) -> Waiting | None:
    for node in desired.nodes:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is NodeState.STOPPED:
            return Waiting("StartingNode", f"node {node.name} is being started")
        if seen.state is not NodeState.READY:
            return _waiting_for(seen)
    return None


def _waiting_for(node: ObservedNode) -> Waiting:
    return Waiting(node.reason or "NodeNotReady", f"node {node.name}: {node.message or node.state.value}")
