"""Reassignments for several commands: planned changes, progress, and waiting for the end."""

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


class MoveRejectedError(OttlaError):
    """Some reassignments were rejected; the message names the partitions."""


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
    """Return the replicas of all partitions, or the target replicas of a reassignment: the basis of another plan."""
    moving = await admin.list_partition_reassignments()
    known = await described_partitions(admin)
    return {it: moving[it].target if it in moving else entry.replicas for it, entry in known.items()}


def planned_row(partition: "TopicPartition", before: Sequence[int], target: Sequence[int]) -> dict[str, Any]:
    """Return the row of a planned move."""
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
    """Return the row of a reassignment in progress."""
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
    """Start reassignments (None: cancel the one in progress).

    Raises:
        MoveRejectedError: some were rejected; the others have been started.
    """
    rejected = await admin.alter_partition_reassignments(targets, allow_replication_factor_change=may_change_factor)
    if rejected:
        raise MoveRejectedError("; ".join(f"{partition}: {_words(error)}" for partition, error in rejected.items()))


async def wait_for_moves(admin: "AdminClient", partitions: "Sequence[TopicPartition]", *, timeout_s: float) -> ExitCode:
    """Return OK when no reassignment of ``partitions`` is in progress, TIMEOUT when that takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    with ProgressBar("move", total=len(partitions)) as bar:
        while moving := await admin.list_partition_reassignments(partitions):
            bar.update(len(partitions) - len(moving), note=f"reassigning {len(moving)} of {len(partitions)}")
            if loop.time() >= deadline:
                talk(f"error: {len(moving)} partitions are not moved yet; see ottla partition reassign --status")
                return ExitCode.TIMEOUT
            await asyncio.sleep(POLL_S)
        bar.update(len(partitions), note="done")
    return ExitCode.OK


def _words(error: KafkaError) -> str:
    return f"{error.code.name}: {error.message}" if error.message else error.code.name
