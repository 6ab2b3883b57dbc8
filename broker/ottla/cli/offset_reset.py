"""Resets of a group's committed offsets, or of a share group's start offsets: what `ottla group reset` plans.

A target is one of: a position (`offset_range`), ``current``, a shift of the committed offsets, or a file of offsets. As
in kafka-consumer-groups, an offset outside of its partition becomes the nearest one in it, and ``current`` of a
partition without a committed offset is the end.

Source: ConsumerGroupCommand.prepareOffsetsToReset of Apache Kafka 4.3.
"""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.exit_codes import NotFoundError
from ottla.cli.moves import described_partitions
from ottla.cli.named_partitions import choose_partitions
from ottla.cli.offset_range import Position, parse_offset_range
from ottla.cli.positions import Bounds, offsets_of_position, partition_bounds
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin import AdminClient
    from ottla.client.results import GroupDescription
    from ottla.types import Offset, TopicPartition

CURRENT = "current"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """One field is set; none of them is ``current``."""

    position: Position | None = None
    shift: int | None = None
    offsets: "Mapping[TopicPartition, Offset] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReset:
    """The reset of one partition; ``current`` is None without a committed offset."""

    partition: "TopicPartition"
    current: "Offset | None"
    new: "Offset"


def parse_target(to: str | None, shift: int | None, file: Path | None, *, now_ms: int) -> ResetTarget:
    """Read the options of the command, of which one must be given.

    Raises:
        click.UsageError: none or several are given, or one cannot be read.
    """
    if sum(option is not None for option in (to, shift, file)) != 1:
        raise click.UsageError("name the new offsets: one of --to, --shift and --file")
    if file is not None:
        return ResetTarget(offsets=_read_offsets(file))
    if to is None or to == CURRENT:
        return ResetTarget(shift=shift)
    chosen = parse_offset_range(to, now_ms=now_ms)
    if chosen.stop is not None:
        raise click.UsageError(f"{to!r} is a range; a group continues at one offset, as --to 47 or --to @-1h")
    return ResetTarget(position=chosen.begin)


def _read_offsets(file: Path) -> "dict[TopicPartition, Offset]":
    """Read lines of topic, partition, offset."""
    from ottla.types import TopicPartition

    offsets = {}
    with file.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines), start=1):
            if len(row) != 3 or not (row[1].strip().isdecimal() and row[2].strip().isdecimal()):
                raise click.UsageError(f"{file}:{number} is not topic,partition,offset: {','.join(row)[:80]!r}")
            offsets[TopicPartition(row[0].strip(), int(row[1]))] = int(row[2])
    if not offsets:
        raise click.UsageError(f"{file} is empty: it takes lines of topic,partition,offset")
    return offsets


async def plan_reset(
    admin: "AdminClient",
    group_id: str,
    scope: Sequence[str],
    target: ResetTarget,
    *,
    takes_all: bool,
    is_share: bool,
    left_out: Collection[str] = (),
) -> list[PlannedReset]:
    """Return the new offset of each partition in scope, sorted, for a group without members.

    The group need not exist: clients of a new group then start at these offsets. With ``takes_all`` the scope is every
    partition with a committed offset, or a start offset of a share group, except for those of topics ``left_out``.

    Raises:
        NotFoundError: a partition does not exist, or the group has no committed offset.
        OttlaError: a partition without a committed offset is to be shifted.
    """
    committed = await _current_offsets(admin, group_id, is_share=is_share)
    known = await described_partitions(admin)
    if target.offsets is not None:
        where = choose_partitions([str(partition) for partition in target.offsets], known)
    elif takes_all:
        where = sorted(partition for partition in committed if partition in known and partition.topic not in left_out)
        if not where:
            raise NotFoundError(f"group {group_id} has no committed offsets; name topics instead of --all-topics")
    else:
        where = choose_partitions(scope, known)
    bounds = await partition_bounds(admin, where)
    positions = {} if target.position is None else await offsets_of_position(admin, bounds, target.position)
    planned = []
    for partition in where:
        new = positions.get(partition)
        if new is None:
            new = bounds[partition].clamp(_new_offset(partition, committed.get(partition), bounds[partition], target))
        planned.append(PlannedReset(partition=partition, current=committed.get(partition), new=new))
    return planned


def _new_offset(
    partition: "TopicPartition", committed: "Offset | None", bounds: Bounds, target: ResetTarget
) -> "Offset":
    if target.offsets is not None:
        return target.offsets[partition]
    if target.shift is None:
        return bounds.end if committed is None else committed
    if committed is None:
        raise OttlaError(f"{partition} has no committed offset to shift; use --to, or leave it out")
    return committed + target.shift


async def _current_offsets(admin: "AdminClient", group_id: str, *, is_share: bool) -> "dict[TopicPartition, Offset]":
    """Return a group's committed offsets, or the start offsets of a share group; partitions without one are absent."""
    if is_share:
        started = await admin.share_group_offsets(group_id)
        return {at: each.start_offset for at, each in started.items() if each.start_offset is not None}
    return {at: each.offset for at, each in (await admin.group_offsets(group_id)).items()}


def require_no_members(groups: "Iterable[GroupDescription]", what: str) -> None:
    """Raise if a group has members: they would go on from their own positions.

    Raises:
        OttlaError: with ``what`` could be done without members.
    """
    for group in groups:
        if group.members:
            raise OttlaError(
                f"group {group.group_id} has {len(group.members)} member(s), state {group.state}: {what} only while it "
                f"has none. Stop its clients first; ottla group members {group.group_id} lists them"
            )
