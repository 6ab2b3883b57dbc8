"""The disruption budget: others may stop one node, by draining its Kubernetes node, while the cluster is whole. Pure.

A pod that is ready again may lag behind for long, and the pod of a node that the operator restarts exists until it
terminates. So the PodDisruptionBudget follows the brokers' view, and it is closed, and the cluster observed again,
before the operator itself restarts a node: no pod can be evicted in between.
"""

from dataclasses import replace

from ottla_operator.model.conditions import Rejected
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.planning.plan import Plan
from ottla_operator.planning.steps.cluster import LimitDisruptions, RestartNode
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.nodes import NodeState
from ottla_operator.ports.observed_cluster import ObservedCluster


def with_disruptions(plan: Plan, desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None) -> Plan:
    """Return ``plan`` with the step that opens or closes the budget, before its restarts.

    Unchanged on a host without a budget, or if the budget is as it should be.
    """
    if observed.disruptions_allowed is None or isinstance(plan.obstacle, Rejected):
        return plan
    # A node that is stopped for good holds no partition, and does not vote.
    restarts = [step for step in plan.steps if isinstance(step, RestartNode)]
    reason = str(restarts[0]) if restarts else _disruption_blocker(desired, observed, view)
    allowed = 0 if reason is not None else 1
    if allowed == observed.disruptions_allowed:
        return plan
    operation = plan.operation
    if restarts and operation is not None:
        operation = replace(operation, takes_step=False)
    others = tuple(step for step in plan.steps if step not in restarts)
    return replace(plan, steps=(*others, LimitDisruptions(desired, allowed, reason or "")), operation=operation)


def _disruption_blocker(desired: DesiredCluster, observed: ObservedCluster, view: ClusterView | None) -> str | None:
    """Return why no node may be stopped; None if any one of them may."""
    for node in desired.staying:
        seen = observed.nodes.get(node.name)
        if seen is None or seen.state is not NodeState.READY:
            return f"node {node.name} is not ready"
        if seen.rejection:
            return f"node {node.name} would not come up again: {seen.rejection}"
        if seen.unverified:
            return f"node {node.name}: its {seen.unverified}"
    if view is None:
        return "no broker responds"
    for node in desired.brokers:
        if view.brokers.get(node.node_id, True):
            return f"broker {node.node_id} has not joined the cluster"
    behind = [str(voter.node_id) for voter in view.voters if not voter.is_caught_up]
    if behind:
        return f"voters {', '.join(behind)} do not follow the metadata log"
    # Replicas that are being added lag while they are copied, and are not relied on yet.
    lagging = [it.partition for it in view.partitions if it.lagging - set(it.adding)]
    if lagging:
        return f"{len(lagging)} partitions lack replicas in sync (first: {lagging[0]})"
    return None
