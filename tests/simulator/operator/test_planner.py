"""The real operator runs simulated clusters: every spec is reached, safely, also when something is killed.

A fault strikes at the first step of each kind, and scenarios take turns: each kind of step is struck at each moment in
some scenario. With ``OTTLA_PLANNER_SWEEP=all`` (`make nightly`) each scenario is struck at every step and moment, and
runs with every seed.
"""

import functools
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

import pytest

from operator_simulation.__main__ import main
from operator_simulation.host import SimulatedHost
from operator_simulation.outcome import Order, Outcome
from operator_simulation.run import PlannerRun
from operator_simulation.scenarios import BY_NAME, SCENARIOS, Scenario
from operator_simulation.steps import Kind, Moment
from ottla_operator.model.nodes import DesiredNode
from ottla_operator.ports.nodes import ObservedNode

LAGGING_SEED = 2
"""Messages between nodes are later than all others."""

SWEEPS_ALL = os.environ.get("OTTLA_PLANNER_SWEEP") == "all"
BRIEFLY = frozenset(
    {
        "roll-in-window",
        "roll-racks",
        "roll-back",
        "roll-paused",
        "voters-up-and-down",
        "shrink-and-grow-back",
        "grow-and-wait",
        "roll-beside-another",
        "roll-taken-over",
        "roll-while-api-is-away",
        "roll-unanswered",
        "shrink-for-good-unanswered",
        "grow-refused-and-unseen",
        "rotation-unanswered",
        "roll-rejected",
    }
)
"""Variations of other scenarios: they have fewer faults, unless everything is swept."""
RARE = frozenset({Kind.ADD_VOTER, Kind.USER, Kind.SECRET, Kind.VOLUMES})
"""Kinds of steps that too few scenarios take for these to take turns."""


def name_of(scenario: Scenario) -> str:
    return scenario.name


def scenarios_with(name: str, values: Sequence[object]) -> pytest.MarkDecorator:
    """Run each scenario of a test with one of ``values``, in turn; in a sweep with each of them."""
    chosen = [
        pytest.param(scenario, value, id=f"{value}-{scenario.name}")
        for place, scenario in enumerate(SCENARIOS)
        for value in (values if SWEEPS_ALL else [values[place % len(values)]])
    ]
    return pytest.mark.parametrize(("scenario", name), chosen)


def run(scenario: Scenario, seed: int, order: Order) -> Outcome:
    outcome = PlannerRun(scenario, seed, order).run()
    assert outcome.failure is None, outcome.report()
    return outcome


@functools.cache
def kinds_of_steps(scenario: str) -> tuple[Kind, ...]:
    return tuple(step.kind for step in run(BY_NAME[scenario], 1, Order()).steps)


def steps_to_strike_at(scenario: str) -> tuple[int, ...]:
    kinds = kinds_of_steps(scenario)
    if SWEEPS_ALL:
        return tuple(range(len(kinds)))
    firsts = sorted({kinds.index(kind) for kind in kinds})
    return tuple(firsts[1::2] if scenario in BRIEFLY else firsts)


def turn_of(scenario: str, kind: Kind) -> int:
    """Return a number that differs by one from scenario to scenario, and from kind to kind."""
    return [it.name for it in SCENARIOS].index(scenario) + list(Kind).index(kind)


def moments_to_kill_at(scenario: str, number: int) -> tuple[Moment, ...]:
    """Return at which moments of a step the operator is killed: one in turn, or all."""
    kind = kinds_of_steps(scenario)[number]
    moments = tuple(Moment)
    return moments if SWEEPS_ALL or kind in RARE else (moments[turn_of(scenario, kind) % len(moments)],)


def steps_to_crash_at(scenario: str) -> tuple[int, ...]:
    """Return at which steps a node crashes: at every other kind in turn, or at all."""
    steps, kinds = steps_to_strike_at(scenario), kinds_of_steps(scenario)
    chosen = tuple(it for it in steps if kinds[it] in RARE or turn_of(scenario, kinds[it]) % 2 == 0)
    return steps if SWEEPS_ALL else chosen or steps[:1]


@pytest.mark.parametrize(
    ("scenario", "seed"),
    [
        pytest.param(scenario, seed, id=f"{seed}-{scenario.name}")
        for scenario in SCENARIOS
        for seed in (1, LAGGING_SEED)
        if seed == LAGGING_SEED or SWEEPS_ALL or scenario.name not in BRIEFLY
    ],
)
def test_spec_is_reached(scenario: Scenario, seed: int) -> None:
    outcome = run(scenario, seed, Order())

    assert outcome.steps
    assert outcome.acknowledged > 0 or not scenario.before


def test_volumes_of_a_removed_node_are_deleted_last() -> None:
    kinds = [step.kind for step in run(BY_NAME["shrink-for-good"], 1, Order()).steps]

    assert kinds.index(Kind.VOLUMES) > max(kinds.index(Kind.STOP), kinds.index(Kind.UNREGISTER))
    assert Kind.VOLUMES not in [step.kind for step in run(BY_NAME["shrink-combined"], 1, Order()).steps]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=name_of)
def test_next_operator_continues_after_any_kill(scenario: Scenario) -> None:
    for number in steps_to_strike_at(scenario.name):
        for moment in moments_to_kill_at(scenario.name, number):
            outcome = run(scenario, 1, Order(kill_at=(number, moment)))
            assert (
                outcome.operators == 3
            )  # the one that was killed, its successor, and the one that finds nothing to do


@pytest.mark.parametrize("scenario", [it for it in SCENARIOS if SWEEPS_ALL or it.name not in BRIEFLY], ids=name_of)
def test_nodes_may_crash_at_any_step(scenario: Scenario) -> None:
    for number in steps_to_crash_at(scenario.name):
        assert run(scenario, 1, Order(crash_at=number)).steps


@scenarios_with("seed", [1, 2, 4])
def test_faults_only_delay(scenario: Scenario, seed: int) -> None:
    outcome = run(scenario, seed, Order(troubles=True))

    assert outcome.troubles


@scenarios_with("seed", [1, 3])
def test_api_server_faults_only_delay(scenario: Scenario, seed: int) -> None:
    outcome = run(scenario, seed, Order(api_faults=True))

    assert outcome.troubles


@pytest.mark.parametrize(
    ("scenario", "seed", "troubles"),
    [
        pytest.param("grow-and-wait", 1, True, id="no-broker-waited"),
        pytest.param("roll-paused", 2, True, id="nothing-left-to-pause"),
        pytest.param("rotation-unanswered", 3, True, id="secret-rejected"),
        pytest.param("roll", 8, True, id="status-written-late"),
        pytest.param("roll-beside-another", 7, False, id="topics-of-an-unknown-owner"),
        pytest.param("shrink-throttled", 20, True, id="started-and-unregistered"),
    ],
)
def test_seeds_that_found_defects_under_api_faults_pass(scenario: str, seed: int, troubles: bool) -> None:
    assert run(BY_NAME[scenario], seed, Order(troubles=troubles, api_faults=True)).steps


def test_removed_broker_that_crashes_last_keeps_its_throttle_and_stays_in_the_record() -> None:
    assert run(BY_NAME["shrink-throttled"], 14, Order(troubles=True)).steps


def test_removed_voter_that_crashes_is_started_again() -> None:
    outcome = run(BY_NAME["fewer-voters"], 1, Order(crash_at=2))

    assert Kind.START in [step.kind for step in outcome.steps]


@pytest.mark.parametrize(
    ("seed", "order"),
    [(3, Order(troubles=True)), (1, Order(kill_at=(1, Moment.DURING), crash_at=1))],
    ids=["troubles", "kill-and-crash"],
)
def test_node_without_a_controller_is_not_restarted_while_another_is_down(seed: int, order: Order) -> None:
    run(BY_NAME["roll"], seed, order)


def test_roll_restarts_each_node_once_and_brings_leaders_back() -> None:
    outcome = run(BY_NAME["roll-apart"], 1, Order())
    restarts = [step.what for step in outcome.steps if step.kind is Kind.RESTART]

    assert sorted(restarts[:3]) == ["c-quorum-0", "c-quorum-1", "c-quorum-2"]
    assert restarts[3:] == ["c-main-0", "c-main-1", "c-main-2"]
    assert any(step.kind is Kind.ELECT for step in outcome.steps)


def test_brokers_of_a_rack_are_restarted_together_where_no_partition_misses_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restart = SimulatedHost.restart_node
    at_it: set[str] = set()
    together: set[frozenset[str]] = set()

    async def restart_noted(host: SimulatedHost, node: DesiredNode, uid: str) -> None:
        at_it.add(node.name)
        together.add(frozenset(at_it))
        await restart(host, node, uid)
        at_it.discard(node.name)

    monkeypatch.setattr(SimulatedHost, "restart_node", restart_noted)
    planner = PlannerRun(BY_NAME["roll-racks"], 1, Order())
    outcome = planner.run()

    assert outcome.failure is None, outcome.report()
    (flights,) = planner.state_observer.image.topics.by_name["flights"].partitions.values()
    racks = [[node for node in range(4) if node % 2 == rack] for rack in (0, 1)]
    (not_missed,) = [rack for rack in racks if len(set(rack) & set(flights.replicas)) == 1]
    assert [set(names) for names in together if len(names) > 1] == [{f"c-main-{node}" for node in not_missed}]


def test_broken_version_is_tried_on_one_node_and_rolled_back() -> None:
    restarts = [step.what for step in run(BY_NAME["roll-back"], 1, Order()).steps if step.kind is Kind.RESTART]

    assert len(restarts) == 2
    assert len(set(restarts)) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_roll_waits_while_pods_are_rejected(seed: int) -> None:
    planner = PlannerRun(BY_NAME["roll-rejected"], seed, Order())
    outcome = planner.run()

    assert outcome.failure is None, outcome.report()
    assert planner.state.rejections > 0
    restarts = [step.what for step in outcome.steps if step.kind is Kind.RESTART]
    assert sorted(restarts) == ["c-main-0", "c-main-1", "c-main-2"]


def test_paused_roll_continues_where_it_was() -> None:
    outcome = run(BY_NAME["roll-paused"], 1, Order())
    restarts = [step.what for step in outcome.steps if step.kind is Kind.RESTART]

    assert sorted(restarts) == ["c-main-0", "c-main-1", "c-main-2"]


def test_needless_restart_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = SimulatedHost._observe_node

    async def observe_without_revision(host: SimulatedHost, name: str) -> ObservedNode:
        return replace(await observe(host, name), revision="forgotten")

    monkeypatch.setattr(SimulatedHost, "_observe_node", observe_without_revision)
    failure = PlannerRun(BY_NAME["roll"], 1, Order()).run().failure

    assert failure == "RollInOrder: restart c-main-0, which runs with what is published"


def test_removed_broker_is_cordoned_drained_stopped_and_unregistered() -> None:
    outcome = run(BY_NAME["shrink"], 1, Order())

    assert [step.kind for step in outcome.steps] == [Kind.CONFIGURE, Kind.REASSIGN, Kind.STOP, Kind.UNREGISTER]


def test_same_seed_gives_the_same_run_in_every_process() -> None:
    code = (
        "from operator_simulation.outcome import Order; from operator_simulation.run import PlannerRun; "
        "from operator_simulation.scenarios import BY_NAME; "
        "o = PlannerRun(BY_NAME['roll'], 3, Order(troubles=True, api_faults=True)).run(); "
        "print(o.digest, o.simulated_ms, o.steps)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert runs[0] == runs[1]


def test_command_line_repeats_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(BY_NAME["more-replicas"], 5, Order(kill_at=(0, Moment.DURING)))

    assert outcome.replay_command == "python -m operator_simulation more-replicas --seed 5 --kill 0:during"
    assert main(outcome.replay_command.split()[3:]) == 0
    assert f"digest {outcome.digest:08x}" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["3", "x:during", "3:sometime"])
def test_invalid_kill_option_is_rejected(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["roll", "--kill", text])

    assert "before, during or after" in capsys.readouterr().err
