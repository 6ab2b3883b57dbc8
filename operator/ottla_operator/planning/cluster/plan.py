"""Plans one Cluster: an ordered list of sub-planners, from what is desired, observed, and described by brokers. Pure.

Each plan holds all that is left to do, and nothing is stored between two plans: an operator that ended in the middle
continues where it was. `SUB_PLANNERS` is the list, and its order is the priority.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ottla_operator.model.conditions import Halted, Obstacle, Rejected, Underway, Waiting
from ottla_operator.model.nodes import DesiredCluster
from ottla_operator.model.operation import Operation, Record
from ottla_operator.planning.cluster import voters
from ottla_operator.planning.cluster.broker_configs import config_change
from ottla_operator.planning.cluster.draining import next_broker_to_unregister, surplus_name
from ottla_operator.planning.cluster.features import next_levels
from ottla_operator.planning.cluster.node_lifecycle import nodes_to_start, nodes_to_stop, not_ready, rejected_node
from ottla_operator.planning.cluster.preferred_leaders import next_election
from ottla_operator.planning.cluster.rebalancing import ObservedRebalance
from ottla_operator.planning.cluster.rolling import Roll, RollTimings, roll
from ottla_operator.planning.cluster.scaling import ScalingPlan, plan_scaling
from ottla_operator.planning.cluster.volumes import next_removal
from ottla_operator.planning.plan import Plan, Step
from ottla_operator.planning.steps.cluster import AlterOwnConfigs, Publish, StartNode, StopNode
from ottla_operator.ports.cluster_view import ClusterView
from ottla_operator.ports.observed_cluster import ObservedCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInput:
    """The input of all sub-planners."""

    desired: DesiredCluster
    observed: ObservedCluster
    view: ClusterView | None
    """None while no broker responds; then ``scaling`` is None, too."""
    record: Record | None
    timings: RollTimings
    scaling: ScalingPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPlan:
    """The addition of one sub-planner to a plan; all additions so far are the draft that the next one gets."""

    steps: tuple[Step, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    """The first one of the draft is the plan's."""
    operations: tuple[Operation, ...] = ()
    overrides_obstacles: bool = False
    """Its obstacle comes before all others."""
    overrides_operations: bool = False
    """Its operation is recorded in any case."""

    def with_more(self, more: "PartialPlan") -> "PartialPlan":
        """Return this draft with the next sub-planner's addition."""
        obstacles = (*self.obstacles, *more.obstacles)
        if more.overrides_obstacles:
            obstacles = (*more.obstacles, *self.obstacles)
        return PartialPlan(
            steps=self.steps + more.steps,
            obstacles=obstacles,
            operations=more.operations if more.overrides_operations else self.operations + more.operations,
        )


def plan_cluster(
    desired: DesiredCluster,
    observed: ObservedCluster,
    view: ClusterView | None = None,
    record: Record | None = None,
    lookup: ObservedRebalance | None = None,
    timings: RollTimings | None = None,
) -> Plan:
    """Return the steps towards ``desired``, up to where the next observation is needed.

    At most one node is restarted per plan, or brokers of one rack, and none while another is starting, unless that one
    needs a restart itself.

    Args:
        desired: the nodes in the spec, and those that have to run until they are drained.
        observed: the host's view.
        view: the brokers' view; None while no broker responds.
        record: the recorded operation in progress (``status.operation``).
        lookup: the input of a rebalance.
        timings: durations and maintenance windows.
    """
    scaling = plan_scaling(desired, observed.nodes, view, lookup or ObservedRebalance()) if view is not None else None
    if isinstance(scaling, Rejected):
        return Plan(obstacle=scaling)
    given = PlannerInput(
        desired=desired,
        observed=observed,
        view=view,
        record=record,
        timings=timings or RollTimings(),
        scaling=scaling,
    )
    draft = PartialPlan()
    for _, sub_planner in SUB_PLANNERS:
        draft = draft.with_more(sub_planner(given, draft))
    return Plan(
        draft.steps,
        next(iter(draft.obstacles), None),
        _operation_to_record(record, draft.operations),
        None if scaling is None else (scaling.before, scaling.after),
    )


def _operation_to_record(record: Record | None, operations: Sequence[Operation]) -> Operation | None:
    """Return the recorded operation while it continues, else the first that takes a step, else the first."""
    known = [operation for operation in operations if record is not None and operation.id == record.id]
    acting = [operation for operation in operations if operation.takes_step]
    return next(iter((*known, *acting, *operations)), None)


def _reject_windows(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    # Everything else goes on: nodes are repaired, and restarts that are urgent wait for no window.
    invalid = given.timings.windows.invalid
    return PartialPlan(obstacles=() if invalid is None else (Halted("InvalidMaintenanceWindow", invalid),))


def _report_rejected_node(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return _partial(rejected_node(given.desired, given.observed))


def _publish(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    outdated = given.observed.outdated
    return PartialPlan(steps=(Publish(given.desired, outdated),) if outdated else ())


def _wait_for_nodes(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return PartialPlan(obstacles=tuple(not_ready(given.desired, given.observed)))


def _stop_surplus_nodes(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    # A broker that gets no new partitions any more is cordoned before it is stopped.
    scaling_steps = () if given.scaling is None else given.scaling.steps
    configured = {
        surplus_name(given.desired.cluster, step.node_id) for step in scaling_steps if isinstance(step, AlterOwnConfigs)
    }
    stopped = nodes_to_stop(given.desired, given.observed, configured)
    return PartialPlan(steps=tuple(StopNode(node.name, node.uid) for node in stopped))


def _start_missing_nodes(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return PartialPlan(steps=tuple(StartNode(node) for node in nodes_to_start(given.desired, given.observed)))


def _remove_volumes(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    observed = given.observed
    return _partial(next_removal(given.desired, observed.claims, frozenset(observed.nodes), given.view))


def _change_voters(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    if given.view is None:
        return PartialPlan()
    operation = voters.quorum_operation(given.desired, given.view)
    change = _partial(voters.next_change(given.desired, given.view))
    return replace(change, operations=() if operation is None else (operation,))


def _scale_and_reassign(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    scaling = given.scaling
    if scaling is None:
        return PartialPlan()
    return PartialPlan(
        steps=scaling.steps,
        obstacles=() if scaling.obstacle is None else (scaling.obstacle,),
        operations=() if scaling.operation is None else (scaling.operation,),
    )


def _unregister_brokers(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return _partial(
        None if given.view is None else next_broker_to_unregister(given.desired, given.observed.nodes, given.view)
    )


def _elect_preferred_leaders(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return _partial(None if given.view is None else next_election(given.desired, given.view))


def _alter_broker_configs(given: PlannerInput, _: PartialPlan) -> PartialPlan:
    return _partial(None if given.view is None else config_change(given.desired.cluster.config, given.view))


def _restart_nodes(given: PlannerInput, draft: PartialPlan) -> PartialPlan:
    others = [str(step) for step in draft.steps if not isinstance(step, Publish)]
    comes_first = others[0] if others else None
    nodes = given.observed.nodes
    found = roll(given.desired, nodes, given.view, given.record, given.timings, comes_first=comes_first)
    operation = _with_starts(found, given.record, draft.steps)
    return PartialPlan(
        steps=found.restarts,
        obstacles=() if found.obstacle is None else (found.obstacle,),
        operations=() if operation is None else (operation,),
        overrides_obstacles=bool(found.restarts) or isinstance(found.obstacle, Halted),
        # The record must have the nodes that are restarted, and the spec with which they may then fail.
        overrides_operations=bool(found.restarts),
    )


def _finalize_features(given: PlannerInput, draft: PartialPlan) -> PartialPlan:
    # Only once no node runs another release than the manifest asks for.
    if given.view is None or draft.steps or draft.obstacles:
        return PartialPlan()
    return _partial(next_levels(given.desired.cluster.features, given.view))


SubPlanner = Callable[[PlannerInput, PartialPlan], PartialPlan]

SUB_PLANNERS: Final[tuple[tuple[str, SubPlanner], ...]] = (
    ("reject maintenance windows", _reject_windows),
    ("report rejected nodes", _report_rejected_node),
    ("publish configuration", _publish),
    ("wait for nodes", _wait_for_nodes),
    ("stop surplus nodes", _stop_surplus_nodes),
    ("start missing nodes", _start_missing_nodes),
    ("remove volumes", _remove_volumes),
    ("change voters", _change_voters),
    ("scale and reassign", _scale_and_reassign),
    ("unregister brokers", _unregister_brokers),
    ("elect preferred leaders", _elect_preferred_leaders),
    # After all other requests to brokers, because brokers may reject it.
    ("alter broker configs", _alter_broker_configs),
    # After all other sub-planners: a restart waits for their steps.
    ("restart nodes", _restart_nodes),
    ("finalize features", _finalize_features),
)
"""By name. Steps are executed in this order; the first obstacle, and the first operation that acts, are reported."""


def _partial(choice: Step | Waiting | Underway | Halted | None) -> PartialPlan:
    """Return a partial plan with one step or one obstacle."""
    if choice is None:
        return PartialPlan()
    if isinstance(choice, Waiting | Underway | Halted):
        return PartialPlan(obstacles=(choice,))
    return PartialPlan(steps=(choice,))


def _with_starts(found: Roll, record: Record | None, steps: Iterable[Step]) -> Operation | None:
    """Return the operation of a roll, with those of its nodes that an ended operator left stopped and that start."""
    operation = found.operation
    if operation is None or record is None or record.id != operation.id:
        return operation
    started = {step.node.name for step in steps if isinstance(step, StartNode)}
    again = tuple(name for name in record.nodes if name in started)
    if not again:
        return operation
    return replace(operation, step="Restarting", nodes=(*operation.nodes, *again), takes_step=True)
