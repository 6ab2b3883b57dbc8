"""Mutations of the planner: each breaks one promise on purpose, by replacing one function of the operator.

The runs of `ottla_operator.simulation` have to find every one of them; how soon is measured
(`python tests/simulator/mutations/planner_catalog.py`) and written into docs/simulator.md.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from ottla_operator.model.nodes import DesiredNode
from ottla_operator.reconcile import cluster, draining, reconciler, rolling, voters
from ottla_operator.reconcile.steps import UnregisterBroker
from ottla_operator.simulation.run import Order, Outcome, PlannerRun
from ottla_operator.simulation.scenarios import BY_NAME

SetAttribute = Callable[[Any, str, Any], None]


class Mutation(NamedTuple):
    """``scenarios`` are run with ``seeds_max`` seeds each, from 1 on, until one run fails."""

    name: str
    scenarios: tuple[str, ...]
    order: Order
    seeds_max: int
    apply: Callable[[SetAttribute], None]


MUTATIONS: list[Mutation] = []


def mutation(
    name: str, *scenarios: str, seeds_max: int = 10, troubles: bool = False
) -> Callable[[Callable[[SetAttribute], None]], Callable[[SetAttribute], None]]:
    def register(apply: Callable[[SetAttribute], None]) -> Callable[[SetAttribute], None]:
        MUTATIONS.append(Mutation(name, scenarios, Order(troubles=troubles), seeds_max, apply))
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


@mutation("what too few brokers refuse is refused for good", "create")
def _refuse_early(set_attribute: SetAttribute) -> None:
    async def final(verdict: Any, topic: Any, broker: Any, brokers: int) -> Any:
        return verdict

    set_attribute(reconciler, "_unless_brokers_come", final)


# --- finding them


@contextmanager
def applied(change: Mutation) -> Iterator[None]:
    """Have the mutation in force."""
    undo: list[tuple[Any, str, Any]] = []

    def set_attribute(owner: Any, name: str, value: Any) -> None:
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    change.apply(set_attribute)
    try:
        yield
    finally:
        for owner, name, value in reversed(undo):
            setattr(owner, name, value)


def hunt(change: Mutation) -> Outcome | None:
    """Run until one run fails; return how, or None when none did."""
    with applied(change):
        for seed in range(1, change.seeds_max + 1):
            for scenario in change.scenarios:
                outcome = PlannerRun(BY_NAME[scenario], seed, change.order).run()
                if outcome.failure is not None:
                    return outcome
    return None


def main() -> None:
    """Measure how soon each is found, as rows of the table in docs/simulator.md."""
    wanted = sys.argv[1:]
    for change in MUTATIONS:
        if wanted and not any(word in change.name for word in wanted):
            continue
        started = time.process_time()
        outcome = hunt(change)
        seconds = time.process_time() - started
        if outcome is None or outcome.failure is None:
            print(f"| {change.name} | NOT FOUND | | {seconds:.1f} |", flush=True)
        else:
            by = outcome.failure.partition(":")[0]
            where = f"{outcome.scenario}, seed {outcome.seed}" + (", troubles" if change.order.troubles else "")
            print(f"| {change.name} | {where} | {by} | {seconds:.1f} |", flush=True)
            print("    ", outcome.failure[:240], file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
