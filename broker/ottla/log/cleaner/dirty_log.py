"""How much of one log may be cleaned, and how dirty it is.

Source: LogCleanerManager.cleanableOffsets and LogToClean of Kafka; KIP-354.
"""

import logging
from itertools import pairwise
from typing import NamedTuple

from ottla.log.config import LONG_MAX
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.types import Offset

logger = logging.getLogger(__name__)


class DirtyLog(NamedTuple):
    """A compacted log as `measure` has found it.

    Attributes:
        segments: those that may be cleaned, oldest first.
        first_dirty_offset: records below were cleaned before.
        uncleanable_offset: where ``segments`` end.
        clean_bytes, cleanable_bytes: sizes of the segments below, and from the first dirty offset on.
        compaction_delay_ms: for how long records have exceeded max.compaction.lag.ms; 0 for none.
    """

    log: PartitionLog
    segments: list[Segment]
    first_dirty_offset: Offset
    uncleanable_offset: Offset
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int

    @property
    def dirty_ratio(self) -> float:
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def must_be_cleaned(self) -> bool:
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.dirty_ratio > self.log.config.min_cleanable_dirty_ratio


def measure(log: PartitionLog, now_ms: int) -> DirtyLog:
    """Return what of ``log`` may be cleaned; correct its first dirty offset if that is not in the log.

    Raises:
        StorageError, ShortageError: an index or a header cannot be read.
        CorruptRecordError: the first batch of a segment cannot be read.
    """
    _correct_first_dirty_offset(log)
    first_dirty_offset = log.first_dirty_offset
    segments = log.segments()
    uncleanable_offset = _uncleanable_offset(log, segments, first_dirty_offset, now_ms)
    cleanable = [segment for segment in segments if segment.base_offset < uncleanable_offset]
    ends = [segment.base_offset for segment in segments[1:]] + [log.log_end_offset]
    dirty = [segment for segment, end_offset in zip(cleanable, ends, strict=False) if end_offset > first_dirty_offset]
    return DirtyLog(
        log,
        cleanable,
        first_dirty_offset,
        uncleanable_offset,
        sum(segment.size_bytes for segment in segments if segment.base_offset < first_dirty_offset),
        sum(segment.size_bytes for segment in dirty),
        _compaction_delay_ms(log, dirty, now_ms),
    )


def _correct_first_dirty_offset(log: PartitionLog) -> None:
    offset, start_offset = log.first_dirty_offset, log.log_start_offset
    if offset > log.log_end_offset:
        logger.warning(
            "%s: the first dirty offset %d is above the log end %d; the whole log is compacted again",
            log.directory,
            offset,
            log.log_end_offset,
        )
        offset = start_offset
    log.first_dirty_offset = max(offset, start_offset)


def _uncleanable_offset(log: PartitionLog, segments: list[Segment], first_dirty_offset: Offset, now_ms: int) -> Offset:
    """Return the base offset of the first segment that must not be cleaned."""
    bound = min(log.last_stable_offset, log.recovery_point, segments[-1].base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    uncleanable_offset = segments[0].base_offset
    for segment, following in pairwise(segments):
        is_dirty = following.base_offset > first_dirty_offset
        if following.base_offset > bound or (lag_ms > 0 and is_dirty and segment.age_ms(now_ms) < lag_ms):
            break
        uncleanable_offset = following.base_offset
    return uncleanable_offset


def _compaction_delay_ms(log: PartitionLog, dirty: list[Segment], now_ms: int) -> int:
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return 0
    firsts_ms = [first_ms for segment in dirty if (first_ms := segment.read_first_timestamp()) > 0]
    return max(0, now_ms - max(lag_ms, 0) - min(firsts_ms, default=LONG_MAX))
