"""Clean up the files of interrupted work in a log's directory, before the log is opened.

Files marked ``.deleted`` and half-written ``.cleaned`` and ``.tmp`` ones are removed. A ``.swap`` file is a finished
compaction: it replaces the segments that it covers.

Source: LogLoader.removeTempFilesAndCollectSwapFiles of Kafka.
"""

from typing import Protocol

from ottla.log.checkpoint import TEMPORARY_SUFFIX
from ottla.log.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    parse_base_offset,
)
from ottla.log.segment import Segment
from ottla.ports import Disk
from ottla.types import Offset


class SegmentFactory(Protocol):
    def __call__(self, base_offset: Offset, size_bytes: int, /) -> Segment:
        """Return the segment at ``base_offset`` of the directory, closed."""
        ...


def finish_interrupted_work(disk: Disk, directory: str, names: set[str], segment_at: SegmentFactory) -> set[str]:
    """Complete finished compactions, remove the files of other interrupted work; return the remaining names.

    Raises:
        OSError: from the disk.
        CorruptRecordError: a compacted segment cannot be read.
    """
    names = set(names)
    for name in sorted(names):
        if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            disk.remove(f"{directory}/{name}")
            names.discard(name)
    swapped = sorted(name for name in names if name.endswith(SWAP_SUFFIX))
    for name in swapped:
        base_offset = parse_base_offset(name.removesuffix(SWAP_SUFFIX), LOG_SUFFIX)
        if base_offset is not None:
            path = f"{directory}/{name}"
            end_offset = _end_offset(segment_at(base_offset, disk.size_bytes(path)), path)
            for replaced in _files_between(names, base_offset, end_offset):
                disk.remove(f"{directory}/{replaced}")
                names.discard(replaced)
    for name in swapped:
        target = name.removesuffix(SWAP_SUFFIX)
        disk.rename(f"{directory}/{name}", f"{directory}/{target}")
        names.discard(name)
        names.add(target)
    return names


def _end_offset(segment: Segment, path: str) -> Offset:
    """Return the offset after the last record in the file ``path``, which will be the file of ``segment``."""
    segment.path = path
    end_offset = segment.base_offset + 1
    for _, batch in segment.walk_headers():
        end_offset = batch.next_offset
    segment.discard()
    return end_offset


def _files_between(names: set[str], base_offset: Offset, end_offset: Offset) -> list[str]:
    """Return the files of the segments that start in [base_offset, end_offset)."""
    found = []
    for name in names:
        for suffix in SEGMENT_SUFFIXES:
            if name.endswith(suffix):
                offset = parse_base_offset(name, suffix)
                if offset is not None and base_offset <= offset < end_offset:
                    found.append(name)
    return found
