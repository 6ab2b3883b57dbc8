"""Offsets of a position in partitions: a position of `offset_range` applied to what the brokers have."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.offset_range import Position

if TYPE_CHECKING:
    from ottla.client.admin_topics import TopicAdmin
    from ottla.types import Offset, TopicPartition


class Bounds(NamedTuple):
    """The log start and the end of a partition."""

    start: "Offset"
    end: "Offset"

    def clamp(self, offset: "Offset") -> "Offset":
        """Return the offset in the partition that is nearest to ``offset``."""
        return min(max(offset, self.start), self.end)


async def partition_bounds(
    admin: "TopicAdmin", where: "Collection[TopicPartition]", *, read_committed: bool = False
) -> "dict[TopicPartition, Bounds]":
    """Request the bounds of each partition; with ``read_committed`` the end is the last stable offset."""
    from ottla.client.admin_topics import EARLIEST, LATEST

    starts = await admin.list_offsets(dict.fromkeys(where, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(where, LATEST), read_committed=read_committed)
    return {partition: Bounds(starts[partition].offset, ends[partition].offset) for partition in where}


async def offsets_of_position(
    admin: "TopicAdmin", bounds: "Mapping[TopicPartition, Bounds]", position: Position
) -> "dict[TopicPartition, Offset]":
    """Return the offset of ``position`` in each partition, between its start and its end.

    A time after the newest record is the end.
    """
    times = {}
    if position.timestamp_ms is not None:
        times = await admin.list_offsets(dict.fromkeys(bounds, position.timestamp_ms))
    offsets = {}
    for partition, (start, end) in bounds.items():
        if partition in times:
            wanted = times[partition].offset if times[partition].offset >= 0 else end
        elif position.after_start is not None:
            wanted = start + position.after_start
        elif position.before_end is not None:
            wanted = end - position.before_end
        else:
            wanted = position.offset or 0
        offsets[partition] = bounds[partition].clamp(wanted)
    return offsets
