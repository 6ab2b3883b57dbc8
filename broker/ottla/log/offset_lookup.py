"""Finding offsets by timestamp: what ListOffsets asks.

Source: UnifiedLog.fetchOffsetByTimestamp and LogSegment.findOffsetByTimestamp of Kafka; KIP-79, KIP-734.
"""

from typing import NamedTuple

from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.validation import RECORDS_SIZE_BYTES_MAX
from ottla.types import LeaderEpoch, Offset
from ottla.wire.records import RecordBatch, read_records


class TimestampAndOffset(NamedTuple):
    """A record's own timestamp, its offset, and the leader epoch of its batch (-1: unknown)."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


def find_timestamp(segments: Segments, timestamp_ms: int, log_start_offset: Offset) -> TimestampAndOffset | None:
    """Return the first record at or above the log start that is stamped ``timestamp_ms`` or later.

    Raises:
        CorruptRecordError: the batch that holds it cannot be read.
        StorageError: the disk refused.
    """
    for segment in segments.starting_with(log_start_offset):
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        start_offset = max(segment.time_index.lookup(timestamp_ms), log_start_offset)
        place = segment.find(start_offset)
        if place is None:
            continue
        for position, header in segment.walk_headers(place.position):
            if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= log_start_offset:
                found = _first_record(_whole(segment, position), timestamp_ms, log_start_offset)
                if found is not None:
                    return found
    return None


def find_max_timestamp(segments: Segments, log_start_offset: Offset) -> TimestampAndOffset | None:
    """Return the first record with the newest timestamp; None when no record has one.

    Raises:
        CorruptRecordError: the batch that holds it cannot be read.
        StorageError: the disk refused.
    """
    candidates = segments.starting_with(log_start_offset)
    # max() keeps the first of equals: the earliest segment that has the newest timestamp.
    segment = max(candidates, key=_max_timestamp_ms)
    if segment.max_timestamp_ms < 0:
        return None
    place = segment.find(segment.max_timestamp_offset)
    if place is None:
        return None
    return _first_record(_whole(segment, place.position), segment.max_timestamp_ms, log_start_offset)


def _max_timestamp_ms(segment: Segment) -> int:
    return segment.max_timestamp_ms


def _whole(segment: Segment, position: int) -> RecordBatch:
    _, batch = next(segment.walk_batches(position))
    return batch


def _first_record(batch: RecordBatch, timestamp_ms: int, log_start_offset: Offset) -> TimestampAndOffset | None:
    for record in read_records(batch, size_bytes_max=RECORDS_SIZE_BYTES_MAX):
        if record.timestamp_ms >= timestamp_ms and record.offset >= log_start_offset:
            return TimestampAndOffset(record.timestamp_ms, record.offset, batch.leader_epoch)
    return None
