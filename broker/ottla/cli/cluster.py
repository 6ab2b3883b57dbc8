"""``ottla cluster``: balance replicas and leaders over brokers."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import ExitCode, UnhealthyError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.moves import emit_moves, planned_row, targets_of_all
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, throttle_option, timeout_option, yes_option
from ottla.cli.output import confirm, output_option, talk
from ottla.cli.throttles import move_throttled

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.rebalance_plan import Move, RebalancePlan

AT_ONCE_MAX = 100
"""Limit of concurrent reassignments: each copy loads brokers and so affects clients."""


@click.group()
def cluster() -> None:
    """Balance replicas and leaders over brokers."""


@cluster.command(
    cls=ExampleCommand,
    examples=[
        "ottla cluster rebalance --plan moves.json      # read it, then",
        "ottla cluster rebalance --execute moves.json --throttle 50000000 --timeout 3600",
        "ottla cluster rebalance --plan - -o json       # only show the plan",
    ],
)
@click.option("--plan", "to_file", metavar="FILE", help="Plan, and write the moves to a file; - for none.")
@click.option(
    "--execute",
    "from_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Carry out the moves in a file that --plan wrote; completed moves are not repeated.",
)
@throttle_option()
@output_option()
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def rebalance(
    *,
    to_file: str | None,
    from_file: Path | None,
    rate_bytes_per_s: int | None,
    output: str,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_s: float,
) -> int:
    """Balance replicas, bytes, racks and preferred leaders: plan, read the plan, carry it out.

    Replicas move from the fullest to the emptiest brokers, never to fewer racks; at most 100 partitions move at a time.
    """
    if (to_file is None) is (from_file is None):
        raise click.UsageError("give --plan FILE, and after reading it --execute FILE")
    if from_file is None:
        plan = ask_brokers(bootstrap, timeout_s, _plan)
        emit_moves([planned_row(it.partition, it.before, it.after) for it in plan.moves], output)
        talk(plan.table().rstrip("\n"))
        talk(f"{plan.id}: {plan.summary}")
        if to_file != "-":
            _write(plan, Path(str(to_file)))
        return ExitCode.OK
    moves = _read(from_file)
    left = ask_brokers(bootstrap, timeout_s, lambda admin: _left(admin, moves, from_file))
    emit_moves([planned_row(it.partition, it.before, it.after) for it in left], output)
    if dry_run or not moves:
        talk(f"{len(left)} partition(s) would move" if left else "nothing has to move")
        return ExitCode.OK
    if left:
        confirm(f"Move {len(left)} partition(s)?", yes=yes)
    for first in range(0, len(left), AT_ONCE_MAX):
        move = _mover(left[first : first + AT_ONCE_MAX], rate_bytes_per_s, timeout_s)
        code = ask_brokers(bootstrap, timeout_s, move)
        if code is not ExitCode.OK:
            talk("repeat the command to continue with the remaining moves")
            return code
    # Also of those that an earlier, interrupted run has moved.
    ask_brokers(bootstrap, timeout_s, lambda admin: _elect(admin, moves))
    talk(f"{len(left)} partition(s) have moved" if left else "nothing has to move")
    return ExitCode.OK


def _mover(
    moves: "tuple[Move, ...]", rate_bytes_per_s: int | None, timeout_s: float
) -> "Callable[[AdminClient], Awaitable[ExitCode]]":
    batch = {it.partition: (it.before, it.after) for it in moves}
    return lambda admin: move_throttled(admin, batch, rate_bytes_per_s, wait_s=timeout_s)


async def _elect(admin: "AdminClient", moves: "tuple[Move, ...]") -> None:
    from ottla.client.admin_partitions import ElectionType

    await admin.elect_leaders(ElectionType.PREFERRED, [move.partition for move in moves])


async def _plan(admin: "AdminClient") -> "RebalancePlan":
    from ottla.client.rebalance_plan import largest_replicas, plan_rebalance

    racks = {it.node_id: it.rack for it in (await admin.describe_cluster()).brokers}
    sizes_bytes = largest_replicas(await admin.describe_log_dirs())
    return plan_rebalance(await targets_of_all(admin), racks, sizes_bytes)


async def _left(admin: "AdminClient", moves: "tuple[Move, ...]", file: Path) -> "tuple[Move, ...]":
    from ottla.client.rebalance_plan import remaining_moves

    brokers = [it.node_id for it in (await admin.describe_cluster()).brokers]
    left = remaining_moves(moves, await targets_of_all(admin), brokers)
    if isinstance(left, str):
        raise UnhealthyError(f"the plan in {file} does not apply any more: {left}; create another one with --plan")
    return left


def _read(file: Path) -> "tuple[Move, ...]":
    from ottla.client.rebalance_plan import parse_moves

    try:
        return parse_moves(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.UsageError(f"{file} was not written by --plan: {error}") from error


def _write(plan: "RebalancePlan", file: Path) -> None:
    from ottla.client.rebalance_plan import moves_json

    file.write_text(moves_json(plan.moves), encoding="utf-8")
    talk(f"written to {file}; ottla cluster rebalance --execute {file} carries it out")
