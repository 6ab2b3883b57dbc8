"""``ottla partition``: move partitions to other brokers, and elect their leaders."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.moves import (
    described_partitions,
    emit_moves,
    moving_row,
    planned_row,
    start_moves,
)
from ottla.cli.named_partitions import choose_partitions, parse_partition
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, throttle_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_rows, output_option, talk
from ottla.cli.throttles import clear_throttles, move_throttled

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import PartitionDescription
    from ottla.types import TopicPartition

    Targets: TypeAlias = dict[TopicPartition, tuple[int, ...]]
    Known: TypeAlias = Mapping[TopicPartition, PartitionDescription]


@click.group()
def partition() -> None:
    """Move partitions to other brokers, and elect their leaders."""


@partition.command(
    cls=ExampleCommand,
    examples=[
        "ottla partition reassign flights --brokers 1,2,3 --dry-run   # what would move where",
        "ottla partition reassign flights --brokers 1,2,3 --wait",
        "ottla partition reassign flights -r 2 --yes                  # another replication factor",
        "ottla partition reassign flights-0=3,1,2 flights-1=1,2,3",
        "ottla partition reassign --file moves.json                   # as kafka-reassign-partitions has it",
        "ottla partition reassign flights --brokers 4,5,6 --throttle 10000000 --wait",
        "ottla partition reassign flights --verify                    # lifts the throttle when all has moved",
        "ottla partition reassign --status                            # reassignments in progress",
        "ottla partition reassign flights --cancel",
    ],
)
@click.argument("arguments", nargs=-1, metavar="[TOPIC | TOPIC-N | TOPIC-N=BROKER,...]...")
@click.option("--brokers", "brokers_text", metavar="ID,...", help="Spread the partitions over these brokers.")
@click.option("-r", "--replication-factor", "factor", type=click.IntRange(min=1), help="Change the number of replicas.")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON with a list `partitions` of topic, partition, replicas.",
)
@throttle_option("; lifted by --wait, --verify and --cancel")
@click.option("--status", "shows_status", is_flag=True, help="Show reassignments in progress; change nothing.")
@click.option("--verify", is_flag=True, help="As --status; also remove throttles of completed moves.")
@click.option("--cancel", is_flag=True, help="Cancel reassignments: the earlier replicas are restored.")
@click.option("--wait", is_flag=True, help="Return when everything has moved, or after --timeout.")
@output_option()
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def reassign(
    *,
    arguments: tuple[str, ...],
    brokers_text: str | None,
    factor: int | None,
    file: Path | None,
    rate_bytes_per_s: int | None,
    shows_status: bool,
    verify: bool,
    cancel: bool,
    wait: bool,
    output: str,
    dry_run: bool,
    yes: bool,
    bootstrap: str,
    timeout_s: float,
) -> int:
    """Move partitions to other brokers: plan, start, follow and cancel reassignments.

    With --status and --verify the exit code is 0 if no partition is being reassigned, else 10; with --wait likewise 0.
    """
    if shows_status or verify or cancel:
        if brokers_text or factor or file or rate_bytes_per_s or shows_status + verify + cancel > 1:
            raise click.UsageError("--status, --verify and --cancel take topics and partitions only")
        where = (bootstrap, timeout_s)
        if cancel:
            return _cancel(arguments, where, yes=yes, dry_run=dry_run)
        return _status(arguments, where, output, clears=verify)
    brokers = _broker_ids(brokers_text) if brokers_text else None
    if not arguments and file is None:
        raise click.UsageError("name what to move: topics, partitions, TOPIC-N=BROKER,... or --file")

    async def plan(admin: "AdminClient") -> "tuple[Targets, Known]":
        known = await described_partitions(admin)
        targets = _explicit(arguments, file)
        implicit = choose_partitions([text for text in arguments if "=" not in text], known)
        targets |= await _proposed(admin, implicit, known, brokers, factor)
        missing = [str(it) for it in targets if it not in known]
        if missing:
            raise NotFoundError(f"there is no partition {', '.join(missing)}")
        return {it: target for it, target in targets.items() if target != known[it].replicas}, known

    targets, known = ask_brokers(bootstrap, timeout_s, plan)
    emit_moves([planned_row(it, known[it].replicas, target) for it, target in targets.items()], output)
    if dry_run or not targets:
        talk(f"{len(targets)} partition(s) would move" if targets else "nothing has to move")
        return ExitCode.OK
    confirm(f"Move {len(targets)} partition(s)?", yes=yes)

    moves = {it: (known[it].replicas, target) for it, target in targets.items()}
    return ask_brokers(
        bootstrap,
        timeout_s,
        lambda admin: move_throttled(admin, moves, rate_bytes_per_s, wait_s=timeout_s if wait else None),
    )


def _status(arguments: Sequence[str], where: tuple[str, float], output: str, *, clears: bool) -> int:
    async def look(admin: "AdminClient") -> list[dict[str, Any]]:
        known = await described_partitions(admin) if arguments or clears else {}
        chosen = choose_partitions(arguments, known) if arguments else None
        moving = await admin.list_partition_reassignments(chosen)
        if clears:
            await clear_throttles(admin, {it.topic for it in chosen or known})
        return [moving_row(it, moving[it]) for it in sorted(moving)]

    rows = ask_brokers(*where, look)
    emit_moves(rows, output)
    return ExitCode.UNHEALTHY if rows else ExitCode.OK


def _cancel(arguments: Sequence[str], where: tuple[str, float], *, yes: bool, dry_run: bool) -> int:
    async def look(admin: "AdminClient") -> "list[TopicPartition]":
        chosen = choose_partitions(arguments, await described_partitions(admin)) if arguments else None
        return sorted(await admin.list_partition_reassignments(chosen))

    moving = ask_brokers(*where, look)
    for it in moving:
        talk(f"move of {it}{' would be cancelled' if dry_run else ''}")
    if not moving or dry_run:
        talk("" if moving else "no partition is being reassigned")
        return ExitCode.OK
    confirm(f"Cancel {len(moving)} move(s)?", yes=yes)

    async def cancel(admin: "AdminClient") -> None:
        try:
            await start_moves(admin, dict.fromkeys(moving))
        finally:  # a completed one is rejected, and its throttle is useless now
            await clear_throttles(admin, {it.topic for it in moving})

    ask_brokers(*where, cancel)
    talk(f"{len(moving)} move(s) cancelled")
    return ExitCode.OK


async def _proposed(
    admin: "AdminClient",
    chosen: "Sequence[TopicPartition]",
    known: "Known",
    brokers: list[int] | None,
    factor: int | None,
) -> "Targets":
    """Return the new replicas of ``chosen``: spread over ``brokers``, or only more or fewer."""
    from ottla.client.assignment import Load, spread, with_factor

    if not chosen:
        return {}
    if brokers is None and factor is None:
        raise click.UsageError("name the target: --brokers ID,... or -r N, or TOPIC-N=BROKER,...")
    racks = {it.node_id: it.rack for it in (await admin.describe_cluster()).brokers}
    unknown = sorted(set(brokers or ()) - racks.keys())
    if unknown:
        raise NotFoundError(
            f"there is no broker with the id {', '.join(map(str, unknown))}; ottla broker list shows all"
        )
    load = Load(racks, (entry.replicas for entry in known.values()), racks)
    targets: Targets = {}
    for it in chosen:
        wanted = factor or len(known[it].replicas)
        if wanted > len(racks if brokers is None else brokers):
            raise click.UsageError(f"{it} is to have {wanted} replicas, but there are fewer brokers")
        target = (
            with_factor(known[it].replicas, known[it].isr, wanted, load)
            if brokers is None
            else spread(it.topic, it.partition, brokers, wanted)
        )
        assert target is not None, "there are enough brokers"
        targets[it] = target
    return targets


def _explicit(arguments: Sequence[str], file: Path | None) -> "Targets":
    """Return the explicit targets: ``TOPIC-N=BROKER,...``, and those of the file."""
    targets: Targets = {}
    for text in arguments:
        name, equals, nodes = text.partition("=")
        if equals:
            targets[parse_partition(name)] = tuple(_broker_ids(nodes))
    if file is not None:
        try:
            for entry in json.loads(file.read_text(encoding="utf-8"))["partitions"]:
                where = parse_partition(f"{entry['topic']}-{entry['partition']}")
                targets[where] = tuple(int(node) for node in entry["replicas"])
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{file} is not a list of partitions with topic, partition, replicas") from error
    return targets


def _broker_ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise click.UsageError(f"{text!r} is no list of broker ids; write 1,2,3")
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise click.UsageError(f"{text!r} names a broker twice")
    return ids


@partition.command(
    cls=ExampleCommand,
    examples=[
        "ottla partition elect --all",
        "ottla partition elect flights-0 bookings",
        "ottla partition elect flights-0 --unclean --yes     # may lose records",
    ],
)
@click.argument("arguments", nargs=-1, metavar="[TOPIC | TOPIC-N]...")
@click.option("--all", "everything", is_flag=True, help="All partitions.")
@click.option("--unclean", is_flag=True, help="If no in-sync replica is alive, elect one that lacks records.")
@output_option("table", "json", "yaml")
@yes_option
@bootstrap_option
@timeout_option
def elect(
    *,
    arguments: tuple[str, ...],
    everything: bool,
    unclean: bool,
    output: str,
    yes: bool,
    bootstrap: str,
    timeout_s: float,
) -> int:
    """Elect the preferred leaders of partitions, the first of their replicas."""
    from ottla.client.admin_partitions import ElectionType
    from ottla.errors import ErrorCode

    if bool(arguments) is everything:
        raise click.UsageError("name topics or partitions, or give --all")
    if unclean:
        confirm("Records that only dead brokers have are lost for ever. Elect leaders all the same?", yes=yes)

    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        chosen = choose_partitions(arguments, await described_partitions(admin)) if arguments else None
        elected = await admin.elect_leaders(ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED, chosen)
        return [
            {
                "partition": str(it),
                "elected": error is None,
                "reason": "" if error is None else error.code.name,
                "failed": error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED,
            }
            for it, error in sorted(elected.items())
        ]

    rows = ask_brokers(bootstrap, timeout_s, conversation)
    columns = [Column("PARTITION", "partition"), Column("ELECTED", "elected"), Column("REASON", "reason")]
    if rows or output != "table":
        emit_rows(rows, columns, output, kind="partition", name_key="partition")
    talk(f"{sum(row['elected'] for row in rows)} leader(s) elected")
    return ExitCode.ERROR if any(row["failed"] for row in rows) else ExitCode.OK
