"""The segments of one cleaning, and the groups that are merged into one segment each.

Source: Cleaner.groupSegmentsBySize of Kafka.
"""

from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.offset_index import RELATIVE_OFFSET_MAX
from ottla.types import Offset


class SourceSegment(NamedTuple):
    """One segment as it was when its cleaning started; work off the loop must not use the log's own.

    Attributes:
        end_offset: base offset of the segment that follows.
        log_path: of its ``.log`` file.
        index_paths: of its offset index and its time index.
    """

    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    log_path: str
    index_paths: tuple[str, str]


def group_segments(
    segments: Sequence[SourceSegment], config: LogConfig, index_size: Callable[[str], int]
) -> list[list[SourceSegment]]:
    """Return ``segments`` in consecutive groups, each of which fits into one segment even if nothing is removed.

    ``index_size`` returns the size of an index file.
    """
    groups: list[list[SourceSegment]] = []
    sizes: tuple[int, ...] = ()
    for segment in segments:
        own = (segment.size_bytes, *map(index_size, segment.index_paths))
        merged = tuple(map(add, sizes, own)) if groups else own
        if groups and _fits(groups[-1], segment, merged, config):
            groups[-1].append(segment)
            sizes = merged
        else:
            groups.append([segment])
            sizes = own
    return groups


def _fits(group: list[SourceSegment], segment: SourceSegment, sizes: tuple[int, ...], config: LogConfig) -> bool:
    """``sizes``: of all records, offset indexes and time indexes together."""
    limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
    if any(size > limit for size, limit in zip(sizes, limits, strict=True)):
        return False
    return segment.size_bytes == 0 or segment.end_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
