"""``ottla quorum``: the metadata quorum, as its leader sees it, and its voters."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.exit_codes import ExitCode, NotFoundError
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, dry_run_option, timeout_option, yes_option
from ottla.cli.output import Column, confirm, emit_pairs, emit_table, emit_value, output_option, talk

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.types import Endpoint


@click.group()
def quorum() -> None:
    """Describe and change the metadata quorum."""


@quorum.command(cls=ExampleCommand, examples=["ottla quorum describe", "ottla quorum describe -o wide"])
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def describe(*, output: str, bootstrap: str, timeout_s: float) -> int:
    """Describe the quorum: leader, epoch, and the lag of each replica.

    The exit code is 10 if there is no leader.
    """
    from ottla.client.results import QuorumDescription, QuorumReplica

    described: QuorumDescription = ask_brokers(bootstrap, timeout_s, lambda admin: admin.describe_quorum())
    leader_end = next(
        (voter.log_end_offset for voter in described.voters if voter.node_id == described.leader_id),
        described.high_watermark,
    )

    def row(replica: QuorumReplica, role: str) -> dict[str, Any]:
        return {
            "nodeId": replica.node_id,
            "role": "leader" if replica.node_id == described.leader_id else role,
            "logEndOffset": replica.log_end_offset,
            "lag": max(leader_end - replica.log_end_offset, 0),
            "lastFetchTimestampMs": replica.last_fetch_timestamp_ms,
            "lastCaughtUpTimestampMs": replica.last_caught_up_timestamp_ms,
            "directoryId": replica.directory_id,
            "endpoints": list(replica.endpoints),
        }

    replicas = [row(voter, "voter") for voter in described.voters]
    replicas += [row(observer, "observer") for observer in described.observers]
    summary = {
        "leaderId": described.leader_id,
        "leaderEpoch": described.leader_epoch,
        "highWatermark": described.high_watermark,
        "maxFollowerLag": max((replica["lag"] for replica in replicas), default=0),
    }
    if output in ("json", "yaml"):
        emit_value({**summary, "replicas": replicas}, output)
    else:
        _show(summary, replicas, wide=output == "wide")
    if described.leader_id < 0:
        talk("error: the quorum has no leader")
        return ExitCode.UNHEALTHY
    return ExitCode.OK


def _show(summary: dict[str, Any], replicas: list[dict[str, Any]], *, wide: bool) -> None:
    emit_pairs(
        [
            ("Leader", summary["leaderId"]),
            ("Epoch", summary["leaderEpoch"]),
            ("High watermark", summary["highWatermark"]),
            ("Largest lag", summary["maxFollowerLag"]),
        ]
    )
    click.echo()
    columns = [
        Column("NODE", "nodeId"),
        Column("ROLE", "role"),
        Column("END", "logEndOffset"),
        Column("LAG", "lag"),
        Column("ENDPOINTS", "endpoints", wide=True),
        Column("DIRECTORY", "directoryId", wide=True),
        Column("CAUGHT-UP-MS", "lastCaughtUpTimestampMs", wide=True),
    ]
    emit_table(replicas, columns, wide=wide)


@quorum.command(
    cls=ExampleCommand,
    examples=[
        "ottla quorum add 4 --endpoint CONTROLLER://host4:9093",
        "ottla quorum add -c server.properties                 # from that node's configuration",
    ],
)
@click.argument("node_id", metavar="[ID]", type=click.IntRange(min=0), required=False)
@click.option("--endpoint", "endpoints", multiple=True, metavar="NAME://HOST:PORT", help="Its controller listener.")
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The controller's server.properties, instead of its id and endpoint.",
)
@click.option("--directory-id", help="Id of its metadata log directory.  [default: that of the observer with this id]")
@dry_run_option
@bootstrap_option
@timeout_option
def add(
    *,
    node_id: int | None,
    endpoints: tuple[str, ...],
    file: Path | None,
    directory_id: str | None,
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """Add a running controller, which is an observer, to the voters."""
    if (node_id is None or not endpoints) == (file is None):
        raise click.UsageError("name the controller by its id and --endpoint, or by -c FILE")
    listeners = [_endpoint(text) for text in endpoints]
    if file is not None:
        node_id, listeners = _configured(file)
    chosen: int = node_id if node_id is not None else -1

    async def conversation(admin: "AdminClient") -> None:
        described = await admin.describe_quorum()
        found = directory_id or next((it.directory_id for it in described.observers if it.node_id == chosen), None)
        if found is None:
            voters = [it.node_id for it in described.voters]
            reason = (
                "it is already a voter" if chosen in voters else "start it, formatted with --no-initial-controllers"
            )
            raise NotFoundError(f"no observer of the quorum has the id {chosen}: {reason}")
        if not dry_run:
            await admin.add_raft_voter(chosen, found, listeners)

    ask_brokers(bootstrap, timeout_s, conversation)
    talk(f"controller {chosen} {'would be' if dry_run else 'is'} a voter of the quorum")


@quorum.command(cls=ExampleCommand, examples=["ottla quorum remove 4 --yes"])
@click.argument("node_id", metavar="ID", type=click.IntRange(min=0))
@click.option("--directory-id", help="Which one, if two voters have this id.")
@dry_run_option
@yes_option
@bootstrap_option
@timeout_option
def remove(
    *, node_id: int, directory_id: str | None, dry_run: bool, yes: bool, bootstrap: str, timeout_s: float
) -> None:
    """Remove a voter from the quorum; do this before a controller is stopped permanently."""

    async def look(admin: "AdminClient") -> tuple[str, int]:
        voters = (await admin.describe_quorum()).voters
        found = [it.directory_id for it in voters if it.node_id == node_id and directory_id in (None, it.directory_id)]
        if len(found) != 1:
            ids = ", ".join(f"{it.node_id} ({it.directory_id})" for it in voters)
            raise NotFoundError(f"{len(found)} voters match; the quorum has {ids}")
        return found[0], len(voters) - 1

    directory, left = ask_brokers(bootstrap, timeout_s, look)
    if dry_run:
        talk(f"voter {node_id} would leave the quorum; {left} would be left")
        return
    confirm(f"Remove voter {node_id} from the quorum, which leaves {left}?", yes=yes)
    ask_brokers(bootstrap, timeout_s, lambda admin: admin.remove_raft_voter(node_id, directory))
    talk(f"voter {node_id} has left the quorum")


def _endpoint(text: str) -> "tuple[str, Endpoint]":
    from ottla.types import Endpoint

    name, separator, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if not name or not separator or not host or not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f"--endpoint takes NAME://HOST:PORT, not {text!r}")
    return name, Endpoint(host.removeprefix("[").removesuffix("]"), int(port))


def _configured(file: Path) -> "tuple[int, list[tuple[str, Endpoint]]]":
    from ottla.config.node_config import NodeConfig

    config = NodeConfig.from_text(file.read_text(encoding="utf-8"))
    if not config.is_controller:
        raise click.UsageError(f"{file}: process.roles does not have controller, and only controllers are voters")
    return config.node_id, [(listener.name, listener.endpoint) for listener in config.advertised_controller_listeners]
