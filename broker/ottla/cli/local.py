"""``ottla up``, ``down``, ``status``: the local cluster, in a directory."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError
from ottla.cli.interruption import sigterm_interrupts, uninterrupted
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import (
    COMMAND_CONFIG_VARIABLE,
    default_bootstrap,
    default_state_directory,
    directory_option,
    timeout_option,
)
from ottla.cli.output import Column, emit_pairs, emit_table, emit_value, emphasize, output_option, talk

if TYPE_CHECKING:
    from ottla_operator.local import ClusterStatus

WATCH_INTERVAL_S = 2.0


@click.command(
    cls=ExampleCommand,
    examples=[
        "ottla up",
        "ottla up --brokers 3 --detach && ottla status",
        "ottla up --brokers 5 --controllers 3 --port 19092 --dir ./cluster",
    ],
)
@click.option("--brokers", type=click.IntRange(1, 90), help="How many brokers.  [default: as before, or 1]")
@click.option(
    "--controllers",
    type=click.IntRange(1, 9),
    help="Nodes that are controllers only, an odd number.  [default: the first three brokers, or the one, are both]",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Of the first node.  [default: as before, or 9092]")
@click.option("-d", "--detach", is_flag=True, help="Return once it is ready; ottla down stops it.")
@directory_option
@timeout_option
def up(
    *,
    brokers: int | None,
    controllers: int | None,
    port: int | None,
    detach: bool,
    state_dir: Path,
    timeout_s: float,
) -> int:
    """Start the local cluster and keep its data; Ctrl-C stops it, unless --detach."""
    from ottla_operator import local

    with sigterm_interrupts():
        before = local.status(state_dir=state_dir, ask_brokers=False)
        try:
            outcome = local.up(
                state_dir=state_dir, brokers=brokers, controllers=controllers, port=port, timeout_s=timeout_s
            )
            if outcome.exit_code:
                talk(f"error: {outcome.message}")
                return int(outcome.exit_code)
            status = local.status(state_dir=state_dir, ask_brokers=False)
            assert status is not None, "a cluster that is up has a status"
            _greet(status, state_dir, is_new=outcome.action != "unchanged", detach=detach)
        except KeyboardInterrupt:
            if before is None or all(node.pid is None for node in before.nodes):
                _stop(state_dir)
            raise
        if detach:
            return ExitCode.OK
        try:
            exit_code = _watch(state_dir)
        except KeyboardInterrupt:
            exit_code = ExitCode.OK
        talk("stopping")
        _stop(state_dir)
    return exit_code


def _stop(state_dir: Path) -> None:
    from ottla_operator import local

    with uninterrupted():
        local.down(state_dir=state_dir)


def _greet(status: "ClusterStatus", state_dir: Path, *, is_new: bool, detach: bool) -> None:
    state = "is ready" if is_new else "was running already"
    talk(f"{emphasize(f'cluster {status.name} {state}')} ({len(status.nodes)} node(s), data in {state_dir})")
    talk(f"  Kafka    {status.bootstrap_servers}")
    talk(f"  Health   {status.nodes[0].http_address}/readyz")
    is_default = state_dir == default_state_directory()
    where = "" if default_bootstrap() == status.bootstrap_servers else f" -b {status.bootstrap_servers}"
    begin = "Next: "
    if status.command_config is not None:
        where = ""
    if status.command_config is not None and not is_default:
        talk(f"{begin}export {COMMAND_CONFIG_VARIABLE}={status.command_config}")
        begin = "      "
    talk(f"{begin}echo hello | ottla produce greetings{where}")
    talk(f"      ottla consume greetings -n 1{where}")
    talk(f"      ottla down{'' if is_default else f' --dir {state_dir}'}" if detach else "Ctrl-C stops it.")


def _watch(state_dir: Path) -> ExitCode:
    """Return when a node has ended unexpectedly; Ctrl-C raises."""
    import time

    from ottla_operator import local

    while True:
        time.sleep(WATCH_INTERVAL_S)
        status = local.status(state_dir=state_dir, ask_brokers=False)
        for node in status.nodes if status else ():
            if node.pid is None:
                talk(f"error: node {node.name} has ended; see its log {node.log}")
                return ExitCode.UNHEALTHY


@click.command(cls=ExampleCommand, examples=["ottla down", "ottla down --dir ./cluster"])
@directory_option
def down(*, state_dir: Path) -> None:
    """Stop the local cluster; its data stays."""
    from ottla_operator import local

    stopped = local.down(state_dir=state_dir)
    talk(f"stopped {', '.join(stopped)}; data stays in {state_dir}" if stopped else "nothing was running")


@click.command(cls=ExampleCommand, examples=["ottla status", "ottla status -o json | jq -r .bootstrapServers"])
@output_option("table", "wide", "json", "yaml")
@directory_option
def status(*, output: str, state_dir: Path) -> int:
    """Show the local cluster. The exit code is 0 if every node is ready, 10 if not, 3 if there is no cluster."""
    from ottla_operator import local

    found = local.status(state_dir=state_dir)
    if found is None:
        raise NotFoundError(f"there is no cluster in {state_dir}; ottla up creates one")
    nodes = [
        {
            "nodeId": node.node_id,
            "name": node.name,
            "roles": list(node.roles),
            "state": node.state,
            "pid": node.pid,
            "leads": node.leads,
            "clientAddress": node.client_address,
            "httpAddress": node.http_address,
            "log": str(node.log),
            "message": node.message,
        }
        for node in found.nodes
    ]
    if output in ("json", "yaml"):
        summary = {"name": found.name, "clusterId": found.cluster_id, "bootstrapServers": found.bootstrap_servers}
        emit_value({**summary, "nodes": nodes}, output)
        return int(found.exit_code)
    emit_pairs([("Cluster", found.name), ("Id", found.cluster_id), ("Kafka", found.bootstrap_servers)])
    click.echo()
    columns = [
        Column("ID", "nodeId"),
        Column("NODE", "name"),
        Column("ROLES", "roles"),
        Column("STATE", "state"),
        Column("LEADS", "leads"),
        Column("ADDRESS", "clientAddress"),
        Column("HTTP", "httpAddress"),
        Column("MESSAGE", "message"),
        Column("PID", "pid", wide=True),
        Column("LOG", "log", wide=True),
    ]
    emit_table(nodes, columns, wide=output == "wide")
    return int(found.exit_code)
