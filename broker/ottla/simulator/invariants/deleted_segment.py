"""Segments of a log that are deleted, with their records, as the disk sees them.

A log deletes a segment by renaming its file first. A segment that is renamed while there is a ``.swap`` file is
replaced by compaction (`ReplacedSegment`). Else, if a newer one stays, retention or DeleteRecords deletes it
(`DeletedSegment`); truncation deletes the newest first.
"""

import posixpath
from typing import NamedTuple

from ottla.log.file_names import DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, parse_base_offset
from ottla.simulator.world.disk import SimulatedDisk
from ottla.types import Offset
from ottla.wire.records import RecordBatch, iterate_batches


class DeletedSegment(NamedTuple):
    """One segment that is about to be deleted.

    Attributes:
        batches: its batches; at least one.
        end_offset: base offset of the next segment.
        left_bytes: size of the segments that stay.
    """

    batches: list[RecordBatch]
    end_offset: Offset
    left_bytes: int

    @property
    def newest_ms(self) -> int:
        """The newest timestamp of its records."""
        return max(batch.max_timestamp_ms for batch in self.batches)


class ReplacedSegment(NamedTuple):
    """One segment that compaction replaces.

    Attributes:
        batches: its batches.
        cleaned: the batches of the cleaned segment.
        others: those of all other segments that are still there.
    """

    batches: list[RecordBatch]
    cleaned: list[RecordBatch]
    others: list[RecordBatch]


def is_segment_deleted(source: str, target: str) -> bool:
    """Return whether the renaming of ``source`` to ``target`` removes a segment from its log."""
    return source.endswith(LOG_SUFFIX) and target == source + DELETED_SUFFIX


def read_replaced_segment(disk: SimulatedDisk, path: str) -> ReplacedSegment | None:
    """Read the segment at ``path`` and the cleaned one that replaces it; None when there is none."""
    segments = _segments_beside(disk, path, LOG_SUFFIX + SWAP_SUFFIX)
    if not segments:
        return None
    (cleaned_path,) = segments.values()
    others = [other for other in _segments_beside(disk, path, LOG_SUFFIX).values() if other != path]
    return ReplacedSegment(
        list(iterate_batches(disk.contents(path))),
        list(iterate_batches(disk.contents(cleaned_path))),
        [batch for other in others for batch in iterate_batches(disk.contents(other))],
    )


def _segments_beside(disk: SimulatedDisk, path: str, suffix: str) -> dict[Offset, str]:
    """Return the files with ``suffix`` in the directory of ``path``, by base offset."""
    directory = posixpath.dirname(path)
    return {
        offset: each
        for each in disk.paths()
        if posixpath.dirname(each) == directory
        and (offset := parse_base_offset(posixpath.basename(each), suffix)) is not None
    }


def read_oldest_segment(disk: SimulatedDisk, path: str) -> DeletedSegment | None:
    """Read the segment at ``path``; None when it is empty, or not the oldest of several."""
    offsets = _segments_beside(disk, path, LOG_SUFFIX)
    base_offset = parse_base_offset(posixpath.basename(path), LOG_SUFFIX)
    newer = [offset for offset in offsets if offset != base_offset]
    batches = list(iterate_batches(disk.contents(path)))
    if not newer or base_offset != min(offsets) or not batches:
        return None
    return DeletedSegment(batches, min(newer), sum(disk.size_bytes(offsets[offset]) for offset in newer))
