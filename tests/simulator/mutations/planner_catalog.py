"""Mutations of the planner: each breaks one promise on purpose, by replacing one function of the operator.

The runs of `ottla_operator.simulation` have to find every one of them; how soon is measured
(`python tests/simulator/mutations/planner_catalog.py`) and written into docs/simulator.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from hunting import Apply, SetAttribute, measure
from ottla.wire.acl_codes import Operation
from ottla_operator.model.nodes import DesiredNode
from ottla_operator.reconcile import cluster, draining, reconciler, rolling, user, voters
from ottla_operator.reconcile.steps import UnregisterBroker
from ottla_operator.simulation.run import Order, Outcome, PlannerRun
from ottla_operator.simulation.scenarios import BY_NAME


class Mutation(NamedTuple):
    """``scenarios`` are run with ``seeds_max`` seeds each, from 1 on, until one run fails."""

    name: str
    scenarios: tuple[str, ...]
    order: Order
    seeds_max: int
    apply: Apply

    @property
    def seeds(self) -> range:
        return range(1, self.seeds_max + 1)

    def runs(self, seed: int) -> Iterator[Outcome]:
        for scenario in self.scenarios:
            yield PlannerRun(BY_NAME[scenario], seed, self.order).run()

    def place(self, outcome: Outcome) -> str:
        return f"{outcome.scenario}, seed {outcome.seed} {self.order}".rstrip()


MUTATIONS: list[Mutation] = []


def mutation(
    name: str, *scenarios: str, seeds_max: int = 10, troubles: bool = False, crash_at: int | None = None
) -> Callable[[Apply], Apply]:
    def register(apply: Apply) -> Apply:
        MUTATIONS.append(Mutation(name, scenarios, Order(troubles=troubles, crash_at=crash_at), seeds_max, apply))
        return apply

    return register


@mutation("two nodes are restarted at once", "roll")
def _roll_two(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "_what_is_not_ready", lambda *_, **__: None)
    set_attribute(rolling, "_what_is_wrong", lambda *_, **__: None)
    set_attribute(rolling, "_what_a_stop_would_break", lambda node, view: None)


@mutation("the next restart does not wait for the in-sync sets", "roll", "roll-apart")
def _roll_early(set_attribute: SetAttribute) -> None:
    set_attribute(rolling, "_what_is_wrong", lambda *_, **__: None)
    set_attribute(rolling, "_what_a_stop_would_break", lambda node, view: None)


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


@mutation("leaders are not moved back", "roll")
def _leave_leaders(set_attribute: SetAttribute) -> None:
    set_attribute(cluster, "_preferred_leaders", lambda desired, view: None)


@mutation("a leaving broker is stopped before it is drained", "shrink")
def _stop_undrained(set_attribute: SetAttribute) -> None:
    set_attribute(reconciler, "leaving_nodes", lambda cluster, observed, view: ())


@mutation("a leaving broker is unregistered before it is drained", "shrink")
def _unregister_undrained(set_attribute: SetAttribute) -> None:
    def forgotten(desired: Any, observed: Any, view: Any) -> UnregisterBroker | None:
        surplus = [node for node in sorted(view.brokers) if draining._surplus_name(desired.cluster, node) is not None]
        return UnregisterBroker(surplus[0]) if surplus else None

    set_attribute(cluster, "forgotten", forgotten)


@mutation("a leaving voter is stopped while it votes", "shrink-combined")
def _stop_voter(set_attribute: SetAttribute) -> None:
    set_attribute(voters, "next_change", lambda desired, view: None)

    def leaving(spec: Any, observed: Any, view: Any) -> tuple[str, ...]:
        return leaving_nodes(spec, observed, None if view is None else replace(view, voters=()))

    leaving_nodes = reconciler.leaving_nodes
    set_attribute(reconciler, "leaving_nodes", leaving)


@mutation("drained replicas have no successor", "shrink")
def _drop_replicas(set_attribute: SetAttribute) -> None:
    set_attribute(
        draining, "without", lambda replicas, leaving, load: tuple(node for node in replicas if node not in leaving)
    )


@mutation("a user is given more than is asked", "users")
def _give_more(set_attribute: SetAttribute) -> None:
    steps = user._acl_steps

    def generous(asked: Any, known: Any) -> Any:
        everything = frozenset(acl._replace(operation=Operation.ALL) for acl in asked.acls)
        return steps(replace(asked, acls=everything), known)

    set_attribute(user, "_acl_steps", generous)


@mutation("what too few brokers refuse is refused for good", "create", crash_at=1)
def _refuse_early(set_attribute: SetAttribute) -> None:
    async def final(verdict: Any, topic: Any, broker: Any, brokers: int) -> Any:
        return verdict

    set_attribute(reconciler, "_unless_brokers_come", final)


if __name__ == "__main__":
    measure(MUTATIONS)
