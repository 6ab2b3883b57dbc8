"""Retention: the segments of a log to delete by age, by size, and below the log start offset.

Only whole segments at the old end are deleted, and only those that consumers could read (below the high watermark).
Age and size count when cleanup.policy has "delete"; the log start counts always.

Source: UnifiedLog.deleteOldSegments of Kafka.
"""

from collections.abc import Callable

from ottla.log.config import LogConfig
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.types import Offset


def deletable_segments(
    segments: Segments,
    config: LogConfig,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    high_watermark: Offset,
    now_ms: int,
) -> list[Segment]:
    """Return the segments to delete, oldest first. When the active one is among them, it is the last.

    Args:
        segments: of the log.
        config: retention.ms, retention.bytes and cleanup.policy.
        log_start_offset: segments that end at or below it are deleted.
        log_end_offset: the end of the active segment.
        high_watermark: segments that end above it are kept.
        now_ms: wall clock.
    """
    ordered = list(segments)
    ends = [segment.base_offset for segment in ordered[1:]] + [log_end_offset]
    excess_bytes = _excess_bytes(segments, config)
    rules: list[Callable[[Segment, Offset], bool]] = [lambda _, end_offset: end_offset <= log_start_offset]
    if config.is_deleted and config.retention_ms >= 0:
        rules.append(lambda segment, _: segment.age_ms(now_ms) > config.retention_ms)
    deletable: list[Segment] = []
    for segment, end_offset in zip(ordered, ends, strict=True):
        is_active = segment is segments.active
        if end_offset > high_watermark or (is_active and segment.size_bytes == 0):
            break
        # A log start at the end of the active segment does not roll it.
        is_wanted = not any(rule(segment, end_offset) for rule in rules[is_active:])
        if is_wanted and segment.size_bytes > excess_bytes:
            break
        excess_bytes -= segment.size_bytes
        deletable.append(segment)
    return deletable


def _excess_bytes(segments: Segments, config: LogConfig) -> int:
    """Return how many bytes above ``retention.bytes`` the log has; below 0 for none."""
    if not config.is_deleted or config.retention_bytes < 0:
        return -1
    return segments.size_bytes - config.retention_bytes
