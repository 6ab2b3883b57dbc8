"""``ottla broker``: list brokers, drain one, and unregister one that is gone."""

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError, UnhealthyError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.moves import (
    described_partitions,
    emit_moves,
    planned_row,
    start_moves,
    targets_of_all,
    wait_for_moves,
)
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_rows, output_option, talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.types import TopicPartition


@click.group()
def broker() -> None:
    """List, drain and decommission brokers."""


@broker.command("list", cls=ExampleCommand, examples=["ottla broker list", "ottla broker list -o wide"])
@output_option()
@bootstrap_option
@timeout_option
def list_(*, output: str, bootstrap: str, timeout_s: float) -> int:
    """List brokers, including fenced ones; the exit code is 10 if one is fenced."""

    async def conversation(admin: "AdminClient") -> list[dict[str, Any]]:
        cluster = await admin.describe_cluster(include_fenced=True)
        quorum = await admin.describe_quorum()
        voters = {voter.node_id for voter in quorum.voters}
        partitions = list((await described_partitions(admin)).values())
        return [
            {
                "id": it.node_id,
                "address": str(it.endpoint),
                "state": "fenced" if it.is_fenced else "running",
                "leads": sum(entry.leader == it.node_id for entry in partitions),
                "replicas": sum(it.node_id in entry.replicas for entry in partitions),
                "lagging": sum(it.node_id in entry.replicas and it.node_id not in entry.isr for entry in partitions),
                "rack": it.rack,
                "quorum": "leader" if it.node_id == quorum.leader_id else "voter" if it.node_id in voters else "",
            }
            for it in cluster.brokers
        ]

    rows = ask_brokers(bootstrap, timeout_s, conversation)
    columns = [
        Column("ID", "id"),
        Column("ADDRESS", "address"),
        Column("STATE", "state"),
        Column("LEADS", "leads"),
        Column("REPLICAS", "replicas"),
        Column("LAGGING", "lagging"),
        Column("RACK", "rack", wide=True),
        Column("QUORUM", "quorum", wide=True),
    ]
    emit_rows(rows, columns, output, kind="broker", name_key="id")
    return ExitCode.UNHEALTHY if any(row["state"] == "fenced" for row in rows) else ExitCode.OK


@broker.command(
    cls=ExampleCommand, examples=["ottla broker drain 4 --dry-run", "ottla broker drain 4 --yes --timeout 600"]
)
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@click.option("--wait/--no-wait", default=True, show_default=True, help="Return when it has no replicas.")
@output_option()
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def drain(*, node_id: int, wait: bool, output: str, dry_run: bool, yes: bool, bootstrap: str, timeout_s: float) -> int:
    """Move all replicas of a broker to the others.

    New partitions may still be placed on it: stop or decommission it when it has no replicas.
    """
    targets, known = ask_brokers(bootstrap, timeout_s, lambda admin: _plan(admin, node_id))
    rows = [planned_row(it, known[it], target) for it, target in targets.items()]
    if rows:
        emit_moves(rows, output)
    if dry_run or not rows:
        talk(f"{len(rows)} partition(s) would move" if rows else f"broker {node_id} has nothing that could move")
        return ExitCode.OK
    confirm(f"Move {len(rows)} partition(s) away from broker {node_id}?", yes=yes)
    return ask_brokers(bootstrap, timeout_s, lambda admin: _move(admin, targets, wait=wait, timeout_s=timeout_s))


@broker.command(
    cls=ExampleCommand, examples=["ottla broker decommission 4 --dry-run", "ottla broker decommission 4 --yes"]
)
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def decommission(*, node_id: int, dry_run: bool, yes: bool, bootstrap: str, timeout_s: float) -> int:
    """Drain a broker, and unregister it once it is stopped.

    A running broker is only drained, and the exit code is 10: stop it, then repeat the command.
    """
    targets, _ = ask_brokers(bootstrap, timeout_s, lambda admin: _plan(admin, node_id))
    if dry_run:
        talk(f"{len(targets)} partition(s) would move, then broker {node_id} would be unregistered")
        return ExitCode.OK
    confirm(f"Move {len(targets)} partition(s) away from broker {node_id}, and unregister it?", yes=yes)

    async def conversation(admin: "AdminClient") -> ExitCode:
        if targets:
            exit_code = await _move(admin, targets, wait=True, timeout_s=timeout_s)
            if exit_code:
                return exit_code
        held = [str(it) for it, entry in (await described_partitions(admin)).items() if node_id in entry.replicas]
        if held:
            raise UnhealthyError(
                f"broker {node_id} still holds {', '.join(held[:5])}; repeat the command when they have moved"
            )
        found = next(it for it in (await admin.describe_cluster(include_fenced=True)).brokers if it.node_id == node_id)
        if not found.is_fenced:
            raise UnhealthyError(f"broker {node_id} has no replicas and still runs; stop it, then repeat the command")
        await admin.unregister_broker(node_id)
        talk(f"broker {node_id} is unregistered")
        return ExitCode.OK

    return ask_brokers(bootstrap, timeout_s, conversation)


async def _plan(
    admin: "AdminClient", node_id: int
) -> "tuple[dict[TopicPartition, tuple[int, ...]], dict[TopicPartition, tuple[int, ...]]]":
    """Return the target and the current replicas of a broker's partitions.

    Raises:
        NotFoundError: no broker has that id.
        UnhealthyError: there are too few others.
    """
    from ottla.client.assignment import Load, without

    brokers = (await admin.describe_cluster(include_fenced=True)).brokers
    if all(it.node_id != node_id for it in brokers):
        raise NotFoundError(f"no broker has the id {node_id}; ottla broker list shows all")
    held = await targets_of_all(admin)
    racks = {it.node_id: it.rack for it in brokers}
    load = Load([it.node_id for it in brokers if not it.is_fenced], held.values(), racks)
    targets = {}
    for it, replicas in held.items():
        if node_id in replicas:
            target = without(replicas, {node_id}, load)
            if target is None:
                raise UnhealthyError(
                    f"{it} has {len(replicas)} replicas, and without broker {node_id} there are too few brokers for "
                    f"them; start another one, or lower it: ottla partition reassign {it.topic} -r {len(replicas) - 1}"
                )
            targets[it] = target
    return targets, held


async def _move(
    admin: "AdminClient", targets: "dict[TopicPartition, tuple[int, ...]]", *, wait: bool, timeout_s: float
) -> ExitCode:
    await start_moves(admin, targets, may_change_factor=False)
    talk(f"reassigning {len(targets)} partition(s)")
    return await wait_for_moves(admin, list(targets), timeout_s=timeout_s) if wait else ExitCode.OK
