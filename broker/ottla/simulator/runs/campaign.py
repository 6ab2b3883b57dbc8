"""Runs of the simulator one after the other: one seed, some seeds, or fresh ones for as long as there is time.

A failure is reported with everything that is needed to see it again: the seed, the commit, the last events, and the
command that repeats them.
"""

import argparse
import gc
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ottla.simulator.runs.simulation import Outcome, Simulation

MINUTES = 1.0
LAST_EVENTS = 60
_SEEDS = 2**31


@contextmanager
def sparing_the_collector() -> Iterator[None]:
    """Keep the garbage collector from traversing loaded modules, as in a node's process."""
    # A process that has frozen objects of its own, as that of tests, keeps them frozen.
    had_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not had_frozen:
            gc.unfreeze()


def simulate(seed: int, minutes: float) -> Outcome:
    """Run one seed with so many simulated minutes of faults."""
    return Simulation(seed).run(round(minutes * 60_000))


def replay_command(seed: int, minutes: float) -> str:
    return f"python -m ottla.simulator --seed {seed} --minutes {minutes:g}"


def report(outcome: Outcome, minutes: float) -> str:
    """Return the report of a failed run."""
    events = "\n".join(outcome.last_events[-LAST_EVENTS:])
    return (
        f"{events}\n\n{outcome.failure}\n\n"
        f"seed {outcome.seed} at commit {commit()}, after {outcome.simulated_ms / 1000:.3f} simulated seconds: "
        f"{outcome.plan}\nrepeat it with: {replay_command(outcome.seed, minutes)}"
    )


def commit() -> str:
    """Return the commit that this code is of, as far as that is known."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def summary(outcome: Outcome) -> str:
    """Return one line on a run."""
    faults = ", ".join(f"{count} {name}" for name, count in sorted(outcome.faults.items()))
    transactions = f"{outcome.committed} transactions, " if outcome.committed else ""
    return (
        f"seed {outcome.seed}: {'FAILED' if outcome.failure else 'ok'}, {outcome.simulated_ms / 1000:.0f} s simulated, "
        f"{outcome.events} events, {outcome.acknowledged} records acknowledged, {outcome.read} read, "
        f"{transactions}digest {outcome.digest:08x}; {faults or 'no faults'}"
    )


@sparing_the_collector()
def run(seeds: Iterable[int], minutes: float, say: Callable[[str], object], *, is_verbose: bool) -> int:
    """Run ``seeds`` until one fails; return the exit code."""
    started = time.monotonic()
    simulated_ms = count = 0
    faults: Counter[str] = Counter()
    for seed in seeds:
        outcome = simulate(seed, minutes)
        simulated_ms += outcome.simulated_ms
        count += 1
        faults.update(outcome.faults)
        if is_verbose or outcome.failure:
            say(summary(outcome))
        if outcome.failure:
            say(report(outcome, minutes))
            return 1
    seconds = time.monotonic() - started
    simulated = simulated_ms / 1000
    say(
        f"{count} seeds, {simulated / 3600:.2f} simulated hours in {seconds:.0f} s "
        f"({simulated / max(seconds, 0.001):.0f} simulated seconds per second), {sum(faults.values())} faults: "
        "every invariant held"
    )
    return 0


def fresh_seeds(seconds: float) -> Iterator[int]:
    """Give seeds that were hardly ever tried before, until the time is over."""
    end = time.monotonic() + seconds
    seed = time.time_ns() // 1_000_000 % _SEEDS
    while time.monotonic() < end:
        yield seed
        seed = (seed + 1) % _SEEDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code: 1 when an invariant was violated."""
    parser = argparse.ArgumentParser(prog="python -m ottla.simulator", description="Simulate clusters from seeds.")
    parser.add_argument("--seed", type=int, help="the first seed; without it, fresh ones for --seconds")
    parser.add_argument("--count", type=int, default=1, help="how many seeds from --seed on")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="simulated minutes of faults in each run")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long, where no seed is given")
    given = parser.parse_args(arguments)
    has_seed = given.seed is not None
    seeds: Iterable[int] = range(given.seed, given.seed + given.count) if has_seed else fresh_seeds(given.seconds)
    return run(seeds, given.minutes, print, is_verbose=has_seed)
