"""Partitions on the move: what a reassignment would change, and waiting for it to end; for several commands."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.exit_codes import ExitCode
from ottla.cli.output import Column, emit_rows, talk
from ottla.cli.progress import ProgressBar
from ottla.errors import KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import PartitionDescription, Reassignment
    from ottla.types import TopicPartition

POLL_S = 0.2

COLUMNS = [
    Column("PARTITION", "name"),
    Column("REPLICAS", "replicas"),
    Column("TO", "to"),
    Column("ADDING", "adding"),
    Column("REMOVING", "removing"),
]


class MoveRefusedError(OttlaError):
    """Some partitions were refused; the message names them."""


async def described_partitions(
    admin: "AdminClient", topics: Sequence[str] | None = None
) -> "dict[TopicPartition, PartitionDescription]":
    """Return the partitions of ``topics`` (None: of all), sorted."""
    from ottla.types import TopicPartition

    described = await admin.describe_topic_partitions(topics)
    return {
        TopicPartition(name, entry.partition): entry
        for name in sorted(described)
        for entry in described[name].partitions
    }


async def targets_of_all(admin: "AdminClient") -> "dict[TopicPartition, tuple[int, ...]]":
    """Return where all partitions are; of those that move, where they go: from there another move is planned."""
    moving = await admin.list_partition_reassignments()
    known = await described_partitions(admin)
    return {it: moving[it].target if it in moving else entry.replicas for it, entry in known.items()}


def planned_row(partition: "TopicPartition", before: Sequence[int], target: Sequence[int]) -> dict[str, Any]:
    """Return the row of a move that is not made yet."""
    return {
        "name": str(partition),
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": list(before),
        "to": list(target),
        "adding": [node for node in target if node not in before],
        "removing": [node for node in before if node not in target],
    }


def moving_row(partition: "TopicPartition", move: "Reassignment") -> dict[str, Any]:
    """Return the row of a move under way."""
    return {
        "name": str(partition),
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": list(move.replicas),
        "to": list(move.target),
        "adding": list(move.adding),
        "removing": list(move.removing),
    }


def emit_moves(rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print moves as data."""
    emit_rows(rows, COLUMNS, output, kind="move")


async def start_moves(
    admin: "AdminClient", targets: "Mapping[TopicPartition, Sequence[int] | None]", *, may_change_factor: bool = True
) -> None:
    """Start the moves (None: stop the one under way).

    Raises:
        MoveRefusedError: some were refused; the others are on their way.
    """
    refused = await admin.alter_partition_reassignments(targets, allow_replication_factor_change=may_change_factor)
    if refused:
        raise MoveRefusedError("; ".join(f"{partition}: {_words(error)}" for partition, error in refused.items()))


async def wait_for_moves(admin: "AdminClient", partitions: "Sequence[TopicPartition]", *, timeout_s: float) -> ExitCode:
    """Return OK when none of ``partitions`` is on the move any more, TIMEOUT when that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    with ProgressBar("move", total=len(partitions)) as bar:
        while moving := await admin.list_partition_reassignments(partitions):
            bar.update(len(partitions) - len(moving), note=f"{len(moving)} of {len(partitions)} are on the move")
            if loop.time() >= deadline:
                talk(f"error: {len(moving)} partitions are still on the move; ottla partition reassign --status tells")
                return ExitCode.TIMEOUT
            await asyncio.sleep(POLL_S)
        bar.update(len(partitions), note="done")
    return ExitCode.OK


def _words(error: KafkaError) -> str:
    return f"{error.code.name}: {error.message}" if error.message else error.code.name
