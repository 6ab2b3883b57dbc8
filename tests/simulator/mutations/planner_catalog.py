"""Mutations of the planner: each breaks one invariant on purpose, by replacing one function of the operator.

The runs of `operator_simulation` have to find every one of them; how soon is measured
(`python tests/simulator/mutations/planner_catalog.py`) and written into docs/simulator.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from hunting import Apply, SetAttribute, measure
from operator_simulation.outcome import Order, Outcome
from operator_simulation.run import PlannerRun
from operator_simulation.scenarios import BY_NAME
from ottla.wire.acl_codes import Operation
from ottla_operator.controllers.cluster import observation, reconcile
from ottla_operator.controllers.cluster import reconciler as cluster_reconciler
from ottla_operator.controllers.operation_record import OperationRecorder
from ottla_operator.controllers.status import StatusWriter
from ottla_operator.controllers.topic import reconcile as topic_reconcile
from ottla_operator.errors import ApiError
from ottla_operator.model.maintenance import WindowState
from ottla_operator.model.nodes import DesiredNode
from ottla_operator.planning.cluster import draining, rolling, scaling, voters
from ottla_operator.planning.cluster import plan as cluster_plan
from ottla_operator.planning.steps.cluster import RemoveVolumes, RestartNode, UnregisterBroker
from ottla_operator.planning.user import plan as user_plan
from ottla_operator.runtime import cluster_ownership
from ottla_operator.runtime.cluster_ownership import ClusterOwnership, Ownership


class Mutation(NamedTuple):
    """``scenarios`` are run with the seeds from ``seeds_from`` to ``seeds_max``, until one run fails.

    ``seeds_from`` leaves out seeds whose runs have no fault at the one moment that matters: they take a second each.
    """

    name: str
    scenarios: tuple[str, ...]
    order: Order
    seeds_max: int
    apply: Apply
    seeds_from: int = 1

    @property
    def seeds(self) -> range:
        return range(self.seeds_from, self.seeds_max + 1)

    def runs(self, seed: int) -> Iterator[Outcome]:
        for scenario in self.scenarios:
            yield PlannerRun(BY_NAME[scenario], seed, self.order).run()

    def place(self, outcome: Outcome) -> str:
        return f"{outcome.scenario}, seed {outcome.seed} {self.order}".rstrip()


MUTATIONS: list[Mutation] = []


def mutation(
    name: str,
    *scenarios: str,
    seeds_max: int = 10,
    seeds_from: int = 1,
    troubles: bool = False,
    crash_at: int | None = None,
    api_faults: bool = False,
) -> Callable[[Apply], Apply]:
    def register(apply: Apply) -> Apply:
        order = Order(troubles=troubles, crash_at=crash_at, api_faults=api_faults)
        MUTATIONS.append(Mutation(name, scenarios, order, seeds_max, apply, seeds_from))
        return apply

    return register


@mutation("two nodes are restarted at once", "roll")
def _roll_two(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "node_blocker", lambda *_, **__: None)
    set_attribute(rolling, "cluster_blocker", lambda *_, **__: None)
    set_attribute(rolling, "availability_blocker", lambda nodes, view: None)


@mutation("the next restart does not wait for the in-sync sets", "roll", "roll-apart")
def _roll_early(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "cluster_blocker", lambda *_, **__: None)
    set_attribute(rolling, "availability_blocker", lambda nodes, view: None)


@mutation("a node is restarted although its new pod is rejected", "roll-rejected")
def _roll_into_rejection(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "admission_blocker", lambda nodes, observed: None)


@mutation("brokers of two racks are restarted at once", "roll-racks")
def _roll_racks(set_attribute: SetAttribute) -> None:
    def brokers_that_are_not_needed(due: list[DesiredNode], desired: Any, view: Any) -> list[DesiredNode]:
        chosen = due[:1]
        for node in due[1:]:
            if not chosen[0].is_controller and rolling.availability_blocker([*chosen, node], view) is None:
                chosen.append(node)
        return chosen

    set_attribute(rolling, "_restart_batch", brokers_that_are_not_needed)


@mutation("a rack is restarted although a partition misses it", "roll-racks")
def _roll_rack_that_is_missed(set_attribute: SetAttribute) -> None:
    def whole_rack(due: list[DesiredNode], desired: Any, view: Any) -> list[DesiredNode]:
        rack = view.racks.get(due[0].node_id)
        return due[:1] if rack is None else [it for it in due if view.racks.get(it.node_id) == rack]

    set_attribute(rolling, "_restart_batch", whole_rack)


@mutation("a roll continues although the new revision does not become ready", "roll-back")
def _roll_on(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "_halted", lambda *_: None)
    _roll_two(set_attribute)


@mutation("the record of a failed roll is lost", "roll-back")
def _drop_failure(set_attribute: SetAttribute) -> None:
    halted = rolling._halted

    def with_record_reset(desired: Any, observed: Any, operation: Any, record: Any, step_age_s: float) -> Any:
        known = record if record is None else replace(record, step="Restarting")
        return halted(desired, observed, operation, known, step_age_s)

    set_attribute(rolling, "_halted", with_record_reset)


@mutation("a version is recorded as good before all nodes run it", "roll-back")
def _known_too_early(set_attribute: SetAttribute) -> None:
    facts = reconcile._cluster_facts
    set_attribute(reconcile, "_cluster_facts", lambda host, seen: {**facts(host, seen), "image": seen.desired.image})


@mutation("a restart does not wait for a maintenance window", "roll-in-window")
def _roll_at_any_time(set_attribute: SetAttribute) -> None:
    set_attribute(cluster_reconciler, "window_state", lambda windows, now: WindowState())


@mutation("a paused Cluster is reconciled", "roll-paused")
def _ignore_pause(set_attribute: SetAttribute) -> None:
    reconcile = cluster_reconciler.reconcile_cluster
    set_attribute(
        cluster_reconciler,
        "reconcile_cluster",
        lambda asked, *given, **named: reconcile(replace(asked, is_paused=False), *given, **named),
    )


@mutation("the active controller is restarted first", "roll")
def _active_first(set_attribute: SetAttribute) -> None:
    order = rolling._order

    def backwards(node: DesiredNode, view: Any) -> tuple[bool, bool, int]:
        is_broker, is_active, number = order(node, view)
        return is_broker, not is_active, number

    set_attribute(rolling, "_order", backwards)


@mutation("brokers are restarted before controllers", "roll-apart")
def _brokers_first(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "_order", lambda node, view: (node.is_controller, False, node.node_id))


@mutation("preferred leaders are not elected", "roll")
def _leave_leaders(set_attribute: SetAttribute) -> None:
    set_attribute(cluster_plan, "next_election", lambda desired, view: None)


@mutation("a leaving broker is stopped before it is drained", "shrink")
def _stop_undrained(set_attribute: SetAttribute) -> None:
    set_attribute(observation, "leaving_nodes", lambda cluster, observed, view: ())


@mutation("a leaving broker is unregistered before it is drained", "shrink")
def _unregister_undrained(set_attribute: SetAttribute) -> None:
    def next_broker_to_unregister(desired: Any, observed: Any, view: Any) -> UnregisterBroker | None:
        surplus = [node for node in sorted(view.brokers) if draining.surplus_name(desired.cluster, node) is not None]
        return UnregisterBroker(surplus[0]) if surplus else None

    set_attribute(cluster_plan, "next_broker_to_unregister", next_broker_to_unregister)


@mutation("volumes are deleted before their broker is unregistered", "shrink-for-good")
def _remove_volumes_early(set_attribute: SetAttribute) -> None:
    def next_removal(desired: Any, claims: Any, running: Any, view: Any) -> RemoveVolumes | None:
        wanted = {node.name for node in desired.staying}
        gone = tuple(claim for claim in claims if claim.node not in wanted | running)
        return RemoveVolumes(gone) if gone else None

    set_attribute(cluster_plan, "next_removal", next_removal)


@mutation("a leaving voter is stopped while it votes", "shrink-combined")
def _stop_voter(set_attribute: SetAttribute) -> None:
    set_attribute(voters, "next_change", lambda desired, view: None)

    def leaving(spec: Any, observed: Any, view: Any) -> tuple[str, ...]:
        return leaving_nodes(spec, observed, None if view is None else replace(view, voters=()))

    leaving_nodes = observation.leaving_nodes
    set_attribute(observation, "leaving_nodes", leaving)


@mutation("drained replicas are not replaced", "shrink")
def _drop_replicas(set_attribute: SetAttribute) -> None:
    set_attribute(
        draining, "without", lambda replicas, leaving, load: tuple(node for node in replicas if node not in leaving)
    )


@mutation("throttles are not removed", "shrink-throttled")
def _throttles_stay(set_attribute: SetAttribute) -> None:
    throttle = scaling.throttle
    set_attribute(scaling, "throttle", lambda *given: replace(throttle(*given), lifts=()))


@mutation("a broker that is back in the spec stays cordoned", "shrink-and-grow-back")
def _cordons_stay(set_attribute: SetAttribute) -> None:
    cordon = scaling.cordon
    set_attribute(scaling, "cordon", lambda *given: replace(cordon(*given), lifts=()))


@mutation("new brokers get partitions despite onScaleUp None", "grow-and-wait")
def _cordon_none(set_attribute: SetAttribute) -> None:
    set_attribute(scaling, "_brokers_to_cordon", lambda cluster, view, participating: set())


@mutation("the record of an operation is kept after its end", "roll")
def _operations_stay(set_attribute: SetAttribute) -> None:
    facts = OperationRecorder.facts
    set_attribute(
        OperationRecorder, "facts", lambda self, operation: {} if operation is None else facts(self, operation)
    )


@mutation("a user gets more permissions than its rules", "users")
def _give_more(set_attribute: SetAttribute) -> None:
    steps = user_plan._acl_steps

    def generous(asked: Any, known: Any) -> Any:
        everything = frozenset(acl._replace(operation=Operation.ALL) for acl in asked.acls)
        return steps(replace(asked, acls=everything), known)

    set_attribute(user_plan, "_acl_steps", generous)


@mutation("a rejection by too few brokers is final", "create", crash_at=1)
def _reject_early(set_attribute: SetAttribute) -> None:
    set_attribute(topic_reconcile, "_wait_for_brokers", lambda rejected, *_: rejected)


@mutation("a cluster of another operator is treated as owned", "roll-beside-another")
def _claims_are_not_read(set_attribute: SetAttribute) -> None:
    set_attribute(ClusterOwnership, "observe_claim", lambda self, key, claim, **_: (Ownership.OURS, claim))


@mutation("a challenge is treated as expired at once", "roll-beside-another", seeds_max=20)
def _taken_over_at_once(set_attribute: SetAttribute) -> None:
    set_attribute(cluster_ownership, "TAKEOVER_AFTER_S", 0.0)


@mutation("topics in a cluster of another operator are treated as owned", "roll-beside-another")
def _own_all_members(set_attribute: SetAttribute) -> None:
    set_attribute(ClusterOwnership, "is_others", lambda self, document: False)


@mutation("the owner does not reject a challenge", "roll-beside-another", "roll-taken-over")
def _silent(set_attribute: SetAttribute) -> None:
    observe_claim = ClusterOwnership.observe_claim

    def silent(self: ClusterOwnership, key: Any, claim: Any, **when: Any) -> Any:
        return (Ownership.OURS, claim) if claim.name == self.name else observe_claim(self, key, claim, **when)

    set_attribute(ClusterOwnership, "observe_claim", silent)
    set_attribute(cluster_ownership, "TAKEOVER_AFTER_S", 2.0)


@mutation("a restart without a response is repeated for any later run", "roll-unanswered", seeds_from=76, seeds_max=110)
def _restart_any_process(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "RestartNode", lambda node, reason, uid: RestartNode(node, reason))


@mutation("a step is executed before its record is written", "roll", seeds_from=16, seeds_max=30, api_faults=True)
def _recorded_too_early(set_attribute: SetAttribute) -> None:
    apply = StatusWriter._apply

    async def hasty(self: StatusWriter, document: Any, new: Any) -> None:
        try:
            await apply(self, document, new)
        except (ApiError, OSError):
            document["status"] = new

    set_attribute(StatusWriter, "_apply", hasty)


if __name__ == "__main__":
    measure(MUTATIONS)
