"""The real operator runs simulated clusters: whatever is asked for comes, safely, whoever is killed meanwhile.

What strikes at a step strikes at the first step of each kind; with ``OTTLA_PLANNER_SWEEP=all`` at every step.
"""

import functools
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ottla_operator.reconcile.nodes import ObservedNode
from ottla_operator.simulation.__main__ import main
from ottla_operator.simulation.host import SimulatedHost
from ottla_operator.simulation.run import Order, Outcome, PlannerRun
from ottla_operator.simulation.scenarios import BY_NAME, SCENARIOS, Scenario
from ottla_operator.simulation.steps import Kind, Moment

LAGGING_SEED = 2
"""Nodes hear from each other later than from anybody else."""

scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda it: it.name)


def run(scenario: Scenario, seed: int, order: Order) -> Outcome:
    outcome = PlannerRun(scenario, seed, order).run()
    assert outcome.failure is None, outcome.report()
    return outcome


@functools.cache
def steps_to_strike_at(scenario: str) -> tuple[int, ...]:
    kinds = [step.kind for step in run(BY_NAME[scenario], 1, Order()).steps]
    if os.environ.get("OTTLA_PLANNER_SWEEP") == "all":
        return tuple(range(len(kinds)))
    return tuple(sorted({kinds.index(kind) for kind in kinds}))


@scenarios
@pytest.mark.parametrize("seed", [1, LAGGING_SEED])
def test_what_is_asked_for_comes(scenario: Scenario, seed: int) -> None:
    outcome = run(scenario, seed, Order())

    assert outcome.steps
    assert outcome.acknowledged > 0 or not scenario.before


@scenarios
@pytest.mark.parametrize("moment", Moment, ids=lambda it: it.value)
def test_the_next_operator_goes_on_wherever_one_is_killed(scenario: Scenario, moment: Moment) -> None:
    for number in steps_to_strike_at(scenario.name):
        outcome = run(scenario, 1, Order(kill_at=(number, moment)))
        assert outcome.operators == 3  # the one that was killed, its successor, and the one that finds nothing to do


@scenarios
def test_nodes_may_crash_at_any_step(scenario: Scenario) -> None:
    for number in steps_to_strike_at(scenario.name):
        assert run(scenario, 1, Order(crash_at=number)).steps


@scenarios
@pytest.mark.parametrize("seed", [1, 2, 4])
def test_troubles_from_everywhere_only_delay(scenario: Scenario, seed: int) -> None:
    outcome = run(scenario, seed, Order(troubles=True))

    assert outcome.troubles


def test_a_leaving_voter_that_crashes_is_started_again() -> None:
    run(BY_NAME["fewer-voters"], 1, Order(crash_at=2))


@pytest.mark.parametrize(
    ("seed", "order"),
    [(3, Order(troubles=True)), (1, Order(kill_at=(1, Moment.DURING), crash_at=1))],
    ids=["troubles", "kill-and-crash"],
)
def test_a_node_that_has_lost_its_controller_is_not_restarted_beside_another(seed: int, order: Order) -> None:
    run(BY_NAME["roll"], seed, order)


def test_a_roll_restarts_each_node_once_and_brings_leaders_back() -> None:
    outcome = run(BY_NAME["roll-apart"], 1, Order())
    restarts = [step.what for step in outcome.steps if step.kind is Kind.RESTART]

    assert sorted(restarts[:3]) == ["c-quorum-0", "c-quorum-1", "c-quorum-2"]
    assert restarts[3:] == ["c-main-0", "c-main-1", "c-main-2"]
    assert any(step.kind is Kind.ELECT for step in outcome.steps)


def test_a_restart_for_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = SimulatedHost._observe_node

    async def observe_without_revision(host: SimulatedHost, name: str) -> ObservedNode:
        return replace(await observe(host, name), revision="forgotten")

    monkeypatch.setattr(SimulatedHost, "_observe_node", observe_without_revision)
    failure = PlannerRun(BY_NAME["roll"], 1, Order()).run().failure

    assert failure == "RollInOrder: restart c-main-0, which runs with what is published"


def test_a_broker_that_leaves_is_drained_stopped_and_unregistered() -> None:
    outcome = run(BY_NAME["shrink"], 1, Order())

    assert [step.kind for step in outcome.steps] == [Kind.REASSIGN, Kind.STOP, Kind.UNREGISTER]


def test_the_same_seed_gives_the_same_run_in_every_process() -> None:
    code = (
        "from ottla_operator.simulation.run import *; from ottla_operator.simulation.scenarios import BY_NAME; "
        "o = PlannerRun(BY_NAME['roll'], 3, Order(troubles=True)).run(); print(o.digest, o.simulated_ms, o.steps)"
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


def test_the_command_repeats_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(BY_NAME["more-replicas"], 5, Order(kill_at=(0, Moment.DURING)))

    assert outcome.replay_command == "python -m ottla_operator.simulation more-replicas --seed 5 --kill 0:during"
    assert main(outcome.replay_command.split()[3:]) == 0
    assert f"digest {outcome.digest:08x}" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["3", "x:during", "3:sometime"])
def test_a_kill_that_cannot_be_read_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["roll", "--kill", text])

    assert "before, during or after" in capsys.readouterr().err
