"""``ottla simulate``: whole clusters with faults, in one thread, from seeds."""

from collections.abc import Iterable

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import ExampleCommand


@click.command(
    cls=ExampleCommand,
    examples=["ottla simulate --seconds 60", "ottla simulate --seed 7 --minutes 5"],
)
@click.option("--seed", type=int, help="The first seed.  [default: fresh ones for --seconds]")
@click.option(
    "--count", type=click.IntRange(min=1), default=1, show_default=True, help="The number of seeds from --seed on."
)
@click.option("--minutes", type=float, default=1.0, show_default=True, help="Simulated minutes of faults in each run.")
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time limit, if no seed is given.")
def simulate(*, seed: int | None, count: int, minutes: float, seconds: float) -> int:
    """Break simulated clusters in every way, and check their invariants after every event.

    The nodes are the real ones; time, network, disks and clients are simulated. The same seed gives the same run.
    """
    from ottla.simulator.runs.campaign import fresh_seeds, run

    seeds: Iterable[int] = fresh_seeds(seconds) if seed is None else range(seed, seed + count)
    is_broken = run(seeds, minutes, click.echo, is_verbose=seed is not None)
    return ExitCode.ERROR if is_broken else ExitCode.OK
