"""``python -m operator_simulation roll --seed 7 --kill 3:during``: run a scenario as a report says."""

import argparse
import sys
from collections.abc import Sequence

from operator_simulation.outcome import Order, Outcome
from operator_simulation.run import PlannerRun
from operator_simulation.scenarios import BY_NAME
from operator_simulation.steps import Moment


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 1 when an invariant was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m operator_simulation", description="Simulate the operator on simulated clusters."
    )
    parser.add_argument("scenario", choices=[*BY_NAME, "all"], help="what the users ask for")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from --seed on")
    parser.add_argument("--kill", metavar="STEP:MOMENT", help="kill the operator before, during or after a step")
    parser.add_argument("--crash", type=int, metavar="STEP", help="a node crashes a little after a step began")
    parser.add_argument("--troubles", action="store_true", help="nodes, network and operators fail for a while")
    parser.add_argument("--api-faults", action="store_true", help="the API server fails for a while")
    parser.add_argument("--verbose", action="store_true", help="show the last events of every run")
    given = parser.parse_args(arguments)
    order = Order(
        kill_at=_kill_at(parser, given.kill),
        crash_at=given.crash,
        troubles=given.troubles,
        api_faults=given.api_faults,
    )
    for scenario in BY_NAME if given.scenario == "all" else [given.scenario]:
        for seed in range(given.seed, given.seed + given.count):
            outcome = PlannerRun(BY_NAME[scenario], seed, order).run()
            print(summary(outcome))
            if outcome.failure is not None or given.verbose:
                print(outcome.report())
            if outcome.failure is not None:
                return 1
    return 0


def summary(outcome: Outcome) -> str:
    """Return one line on a run."""
    return (
        f"{outcome.scenario}, seed {outcome.seed}: {'FAILED' if outcome.failure else 'ok'}, "
        f"{outcome.simulated_ms / 1000:.0f} s simulated, the change took {outcome.change_ms / 1000:.1f} s and "
        f"{len(outcome.steps)} steps, {outcome.operators} operators, {outcome.acknowledged} records acknowledged, "
        f"{sum(outcome.troubles.values())} troubles, digest {outcome.digest:08x}"
    )


def _kill_at(parser: argparse.ArgumentParser, text: str | None) -> tuple[int, Moment] | None:
    if text is None:
        return None
    number, _, moment = text.partition(":")
    if not number.isdecimal() or moment not in {it.value for it in Moment}:
        parser.error(f"--kill {text}: write the step's number and before, during or after, such as 3:during")
    return int(number), Moment(moment)


if __name__ == "__main__":
    sys.exit(main())
