"""``ottla quorum``: the metadata quorum, seen from its leader."""

from typing import Any

import click

from ottla.cli.exit_codes import ExitCode
from ottla.cli.lazy import ExampleCommand
from ottla.cli.options import ask_brokers, bootstrap_option, timeout_option
from ottla.cli.output import Column, emit_pairs, emit_table, emit_value, output_option, talk


@click.group()
def quorum() -> None:
    """Describe the metadata quorum."""


@quorum.command(cls=ExampleCommand, examples=["ottla quorum describe", "ottla quorum describe -o wide"])
@output_option("table", "wide", "json", "yaml")
@bootstrap_option
@timeout_option
def describe(*, output: str, bootstrap: str, timeout_s: float) -> int:
    """Describe the quorum: leader, epoch, and how far each replica is.

    Ends with 10 where there is no leader.
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
