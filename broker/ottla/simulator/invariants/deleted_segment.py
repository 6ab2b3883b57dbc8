"""`DeletedSegment`: the oldest segment of a log that retention deletes, with its records, as the disk sees it.

A log deletes a segment by renaming its file first. A segment that is renamed while a newer one stays is deleted by
retention or DeleteRecords; truncation deletes the newest first.
"""

import posixpath
from typing import NamedTuple

from ottla.log.file_names import DELETED_SUFFIX, LOG_SUFFIX, parse_base_offset
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


def is_segment_deleted(source: str, target: str) -> bool:
    """Return whether the renaming of ``source`` to ``target`` removes a segment from its log."""
    return source.endswith(LOG_SUFFIX) and target == source + DELETED_SUFFIX


def read_oldest_segment(disk: SimulatedDisk, path: str) -> DeletedSegment | None:
    """Read the segment at ``path``; None when it is empty, or not the oldest of several."""
    directory, name = posixpath.split(path)
    offsets = {
        offset: each
        for each in disk.paths()
        if posixpath.dirname(each) == directory
        and (offset := parse_base_offset(posixpath.basename(each), LOG_SUFFIX)) is not None
    }
    base_offset = parse_base_offset(name, LOG_SUFFIX)
    newer = [offset for offset in offsets if offset != base_offset]
    batches = list(iterate_batches(disk.contents(path)))
    if not newer or base_offset != min(offsets) or not batches:
        return None
    return DeletedSegment(batches, min(newer), sum(disk.size_bytes(offsets[offset]) for offset in newer))
