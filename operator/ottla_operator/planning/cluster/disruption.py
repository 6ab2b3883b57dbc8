"""How many nodes others may stop, by draining machines: one while the cluster is whole, else none. Pure.

A pod that is ready again may lag behind for long, and the pod of a node that the operator restarts is there until it
is told to go. So the budget that Kubernetes asks before it evicts a pod follows what brokers say, and it is closed,
and the cluster looked at again, before the operator itself restarts a node: nobody can be evicted in between.
"""

from dataclasses import replace

from ottla_operator.model.conditions import Refused
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.cluster import LimitDisruptions, RestartNode
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster


def with_disruptions(plan: Plan, desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None) -> Plan:
    """Return ``plan`` with what it takes that others stop nodes only where that breaks nothing.

    Unchanged where the host has no budget, or as long as the budget is what it should be.
    """
    if observed.disruptions_allowed is None or isinstance(plan.obstacle, Refused):
        return plan
    # Who is stopped for good holds nothing any more, and does not vote.
    restarts = [step for step in plan.steps if isinstance(step, RestartNode)]
    reason = str(restarts[0]) if restarts else _what_forbids_any(desired, observed, view)
    allowed = 0 if reason is not None else 1
    if allowed == observed.disruptions_allowed:
        return plan
    operation = plan.operation
    if restarts and operation is not None:
        operation = replace(operation, takes_step=False)
    others = tuple(step for step in plan.steps if step not in restarts)
    return replace(plan, steps=(*others, LimitDisruptions(desired, allowed, reason or "")), operation=operation)


def _what_forbids_any(desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None) -> str | None:
    """Return why no node may be stopped; None where any one of them may."""
    for node in desired.staying:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is not NodeState.READY:
            return f"node {node.name} is not ready"
        if seen.unverified:
            return f"node {node.name}: its {seen.unverified}"
    if view is None:
        return "no broker answers"
    for node in desired.brokers:
        if view.brokers.get(node.node_id, True):
            return f"broker {node.node_id} has not joined the cluster"
    behind = [str(voter.node_id) for voter in view.voters if not voter.is_caught_up]
    if behind:
        return f"voters {', '.join(behind)} do not follow the metadata log"
    # Replicas that come lag for as long as they are copied, and nobody relies on them yet.
    lagging = [it.partition for it in view.partitions if it.lagging - set(it.adding)]
    if lagging:
        return f"{len(lagging)} partitions lack replicas in sync (first: {lagging[0]})"
    return None
