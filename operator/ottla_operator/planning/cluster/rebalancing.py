"""Rebalance plans: when one is created, when it is executed, and what is left of it. Pure.

The annotation ``ottla.dev/rebalance`` is the request: a value that begins with `plan` requests a plan, the id of the
plan starts its moves, and without either no more moves start. With ``onScaleUp: Rebalance`` new brokers are a request
for both. The moves that are left follow from the present replicas, so a plan continues after any interruption.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.client.rebalance_plan import Move, RebalancePlan, plan_id, plan_rebalance, remaining_moves
from ottla.types import TopicPartition
from ottla_operator.model.manifest import Cluster
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.scaling import PLAN, OnScaleUp, RebalancePhase, RebalanceRecord
from ottla_operator.ports.cluster_view import ClusterView


@dataclass(frozen=True, slots=True)
class ObservedRebalance:
    """The input of a rebalance, as looked up."""

    can_plan: bool = False
    """Whether there is a place to keep a plan."""
    stored: tuple[Move, ...] | None = None
    """The moves of the readable plan; None without one, or if it was not looked up."""
    sizes_bytes: Mapping[TopicPartition, int] | None = None
    """Of one replica of each partition; looked up only before a plan is created."""


@dataclass(frozen=True, slots=True)
class Rebalancing:
    """The outcome of planning a rebalance."""

    record: RebalanceRecord | None
    new_plan: RebalancePlan | None = None
    left: tuple[Move, ...] = ()
    """Moves to start."""
    under_way: tuple[TopicPartition, ...] = ()
    """Partitions of the plan that are being reassigned."""

    @property
    def is_running(self) -> bool:
        return self.record is not None and self.record.phase is RebalancePhase.RUNNING


def newcomers(desired: DesiredCluster) -> tuple[int, ...]:
    """Return the brokers of the spec that do not participate yet; none in a new cluster."""
    known = desired.cluster.scaling.record.brokers
    return () if known is None else tuple(node.node_id for node in desired.brokers if node.node_id not in known)


def request(desired: DesiredCluster, view: ClusterView) -> str:
    """Return the request for a plan; empty without one."""
    scaling, new = desired.cluster.scaling, newcomers(desired)
    if new and scaling.policy.on_scale_up is OnScaleUp.REBALANCE and set(new) <= set(view.live_brokers):
        return f"ScaleUp {','.join(map(str, new))}"
    return scaling.requested if scaling.requested.startswith(PLAN) else ""


def needs_stored(cluster: Cluster) -> bool:
    """Tell whether the readable plan has to be looked up."""
    record = cluster.scaling.rebalance
    return record is not None and (bool(record.request) or cluster.scaling.requested == record.id)


def needs_plan(desired: DesiredCluster, view: ClusterView, observed: ObservedRebalance) -> bool:
    """Tell whether a plan is to be created now: only while all participating brokers run, and none is leaving."""
    asked, record = request(desired, view), desired.cluster.scaling.rebalance
    if not asked or not observed.can_plan or not _is_calm(desired, view):
        return False
    if record is None or record.request != asked:
        return True
    # The plan was removed or replaced before it was confirmed.
    is_gone = record.phase is RebalancePhase.PROPOSED and _stored_id(observed) != record.id
    return is_gone or (record.phase is RebalancePhase.STALE and not asked.startswith(PLAN))


def rebalance(desired: DesiredCluster, view: ClusterView, observed: ObservedRebalance) -> Rebalancing:
    """Return the plan to create, or the moves that are left of the confirmed one."""
    scaling, asked = desired.cluster.scaling, request(desired, view)
    record = scaling.rebalance
    if needs_plan(desired, view, observed):
        plan = _new_plan(desired, view, observed)
        phase = RebalancePhase.PROPOSED if plan.moves else RebalancePhase.DONE
        return Rebalancing(RebalanceRecord(id=plan.id, request=asked, phase=phase, summary=plan.summary), plan)
    if record is None:
        return Rebalancing(None)
    is_automatic = bool(asked) and not asked.startswith(PLAN)
    if not is_automatic and record.request != asked:
        record = replace(record, request="")
    if is_automatic or (scaling.requested == record.id and record.id):
        return _carry_out(desired, view, observed, record)
    if record.phase is RebalancePhase.RUNNING:
        record = record.in_phase(
            RebalancePhase.STOPPED, f"no more moves are started; the annotation {record.id} continues it"
        )
    return Rebalancing(record)


def _carry_out(
    desired: DesiredCluster, view: ClusterView, observed: ObservedRebalance, record: RebalanceRecord
) -> Rebalancing:
    if record.phase in (RebalancePhase.DONE, RebalancePhase.STALE):
        return Rebalancing(record)
    if observed.stored is None or _stored_id(observed) != record.id:
        message = "the plan was removed or changed since it was created; request another one"
        return Rebalancing(record.in_phase(RebalancePhase.STALE, message))
    targets = {it.partition: it.target for it in view.partitions}
    left = remaining_moves(observed.stored, targets, [node.node_id for node in desired.brokers])
    if isinstance(left, str):
        return Rebalancing(record.in_phase(RebalancePhase.STALE, f"{left}; request another plan"))
    moving = {it.partition for it in view.partitions if it.is_moving}
    under_way = tuple(move.partition for move in observed.stored if move.partition in moving)
    if not left and not under_way:
        return Rebalancing(record.in_phase(RebalancePhase.DONE))
    return Rebalancing(
        record.in_phase(RebalancePhase.RUNNING), None, left if _is_calm(desired, view) else (), under_way
    )


def _new_plan(desired: DesiredCluster, view: ClusterView, observed: ObservedRebalance) -> RebalancePlan:
    racks = {node.node_id: view.racks.get(node.node_id) for node in desired.brokers}
    return plan_rebalance({it.partition: it.target for it in view.partitions}, racks, observed.sizes_bytes)


def _is_calm(desired: DesiredCluster, view: ClusterView) -> bool:
    """Tell whether every broker of the spec is live, and no other node holds anything."""
    wanted = {node.node_id for node in desired.brokers}
    return wanted <= set(view.live_brokers) and not any(node.is_leaving for node in desired.nodes)


def _stored_id(observed: ObservedRebalance) -> str | None:
    return None if observed.stored is None else plan_id(observed.stored)
