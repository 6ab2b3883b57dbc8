"""Find offsets by timestamp, for ListOffsets.

A lookup compares the newest timestamps of the batch headers, and reads the records of the first batch that may hold
the result. A header can be wrong, in old segments or from other leaders; the lookup then continues with the next batch.
Therefore it runs in steps: records are read and decompressed off the loop, a piece at a time, and walked in slices.

Between two steps segments may be removed or truncated: the lookup then starts again.

Source: UnifiedLog.fetchOffsetByTimestamp and LogSegment.findOffsetByTimestamp of Kafka; KIP-79, KIP-734.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.errors import CorruptRecordError, StorageError
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.validation import RECORDS_SIZE_BYTES_MAX
from ottla.purgatory.off_loop import HeldMemory, OffLoop, in_place
from ottla.purgatory.steps import Steps
from ottla.types import LeaderEpoch, Offset
from ottla.wire.records import RecordBatch, RecordsWalk, TimestampType, parse_batch
from ottla.wire.records.compression import BUFFER_SIZE_BYTES_MAX, open_decompressor, too_large
from ottla.wire.records.decompression import BufferLimitError

_PIECE_SIZE_BYTES: Final = 256 * 1024
_BUFFER_SIZE_BYTES: Final = 8 * 1024 * 1024
_SIZE_BYTES_IN_PLACE_MAX: Final = 16 * 1024
"""Reading so few bytes takes less time than waking a thread."""


class TimestampAndOffset(NamedTuple):
    """A record's own timestamp, its offset, and the leader epoch of its batch (-1: unknown)."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


class _SegmentChangedError(Exception):
    """The segment that was searched has been removed or truncated."""


class OffsetLookup:
    """One lookup in a log.

    Args of the constructor:
        segments: the log's; they may change between two steps.
        log_start_offset: returns where the log starts now.
        off_loop: reads and decompresses the records.
    """

    def __init__(self, segments: Segments, log_start_offset: Callable[[], Offset], off_loop: OffLoop) -> None:
        self._segments = segments
        self._log_start_offset = log_start_offset
        self._off_loop = off_loop

    def find_timestamp(self, timestamp_ms: int) -> Steps[TimestampAndOffset | None]:
        """Return the first record at or above the log start that is stamped ``timestamp_ms`` or later.

        Raises:
            CorruptRecordError: the batch that holds it cannot be read.
            StorageError: an I/O error.
        """
        while True:
            try:
                for segment in self._segments.starting_with(self._log_start_offset()):
                    yield None
                    found = yield from self._find_in_segment(segment, timestamp_ms)
                    if found is not None:
                        return found
                return None
            except _SegmentChangedError:
                continue

    def find_max_timestamp(self) -> Steps[TimestampAndOffset | None]:
        """Return the first record with the newest timestamp; None when no record has one.

        Raises:
            CorruptRecordError: the batch that holds it cannot be read.
            StorageError: an I/O error.
        """
        while True:
            newest: Segment | None = None
            for segment in self._segments.starting_with(self._log_start_offset()):
                yield None
                # Of equal timestamps the first: the earliest segment that has the newest one.
                if newest is None or segment.max_timestamp_ms > newest.max_timestamp_ms:
                    newest = segment
            if newest is None or newest.max_timestamp_ms < 0:
                return None
            try:
                place = newest.find(newest.max_timestamp_offset)
                if place is None:
                    return None
                return (yield from self._find_in_batch(newest, place.position, newest.max_timestamp_ms))
            except _SegmentChangedError:
                continue

    def _find_in_segment(self, segment: Segment, timestamp_ms: int) -> Steps[TimestampAndOffset | None]:
        if not self._is_current(segment):
            raise _SegmentChangedError
        log_start_offset = self._log_start_offset()
        if segment.max_timestamp_ms < timestamp_ms:
            return None
        place = segment.find(max(segment.time_index.lookup(timestamp_ms), log_start_offset))
        if place is None:
            return None
        try:
            for position, header in segment.walk_headers(place.position):
                if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= log_start_offset:
                    found = yield from self._find_in_batch(segment, position, timestamp_ms)
                    if found is not None:
                        return found
                yield None
                if not self._is_current(segment):
                    raise _SegmentChangedError
        except CorruptRecordError:
            if not self._is_current(segment):
                raise _SegmentChangedError from None
            raise
        return None

    def _is_current(self, segment: Segment) -> bool:
        return self._segments.floor(segment.base_offset) is segment

    def _find_in_batch(self, segment: Segment, position: int, timestamp_ms: int) -> Steps[TimestampAndOffset | None]:
        """Return the first record of the batch at ``position`` that is stamped ``timestamp_ms`` or later."""
        _, header = next(segment.walk_headers(position))
        file, size_bytes = segment.file, header.size_bytes
        is_small = size_bytes <= _SIZE_BYTES_IN_PLACE_MAX and not header.is_compressed
        off_loop = in_place(self._off_loop.clock) if is_small else self._off_loop
        for buffer_bytes_max in (_BUFFER_SIZE_BYTES, BUFFER_SIZE_BYTES_MAX):
            memory = off_loop.hold(size_bytes + buffer_bytes_max + 3 * _PIECE_SIZE_BYTES)
            try:
                yield from memory.acquire()
                data = yield from memory.work(lambda: file.pread(size_bytes, position))
                if len(data) < size_bytes or not self._is_current(segment):
                    raise _SegmentChangedError
                return (yield from self._find_in_records(parse_batch(data), timestamp_ms, memory, buffer_bytes_max))
            except BufferLimitError:
                continue
            except OSError as error:
                raise StorageError(f"cannot read {segment.path}: {error}") from error
            finally:
                memory.release()
        raise too_large(header.compression, size_bytes, RECORDS_SIZE_BYTES_MAX)

    def _find_in_records(
        self, batch: RecordBatch, timestamp_ms: int, memory: HeldMemory, buffer_bytes_max: int
    ) -> Steps[TimestampAndOffset | None]:
        base_ms = batch.base_timestamp_ms
        is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        search = _TimestampSearch(
            batch.record_count,
            # With LogAppendTime every record has the header's timestamp, which is late enough.
            delta_min=None if is_append_time else timestamp_ms - base_ms,
            offset_delta_min=self._log_start_offset() - batch.base_offset,
        )
        reader = open_decompressor(batch.compression, batch.payload, buffer_bytes_max=buffer_bytes_max)
        size_bytes = 0
        while not reader.is_at_end:
            piece = yield from memory.work(lambda: reader.read(_PIECE_SIZE_BYTES))
            size_bytes += len(piece)
            if size_bytes > RECORDS_SIZE_BYTES_MAX:
                raise too_large(batch.compression, batch.size_bytes, RECORDS_SIZE_BYTES_MAX)
            for _ in search.feed(piece):
                if search.found is not None:
                    break
                yield None
            if search.found is not None:
                delta_ms, offset_delta = search.found
                found_ms = batch.max_timestamp_ms if is_append_time else base_ms + delta_ms
                return TimestampAndOffset(found_ms, batch.base_offset + offset_delta, batch.leader_epoch)
        search.finish()
        return None


class _TimestampSearch(RecordsWalk):
    """Walks records in search of the first with a timestamp delta and an offset delta of at least these.

    Slices without a match are walked at full speed; a slice that may have one is walked record by record.
    """

    def __init__(self, record_count: int, *, delta_min: int | None, offset_delta_min: int) -> None:
        super().__init__(record_count, is_thorough=delta_min is None)
        self.found: tuple[int, int] | None = None
        """Its timestamp delta and offset delta."""
        self._delta_min = delta_min
        self._offset_delta_min = offset_delta_min

    def _walk_some(self, data: bytes, position: int) -> int:
        before = self.index
        end = super()._walk_some(data, position)
        if self._is_thorough or self._delta_min is None or self.newest_delta < self._delta_min:
            return end
        self.index, self.found, self._large = before, None, None
        self._is_thorough = True
        return super()._walk_some(data, position)

    def _note(self, delta_ms: int, offset_delta: int, *, has_key: bool) -> None:
        """Offset deltas may have gaps here: compaction removes records."""
        self.index += 1
        self.newest_delta = max(self.newest_delta, delta_ms)
        is_late_enough = self._delta_min is None or delta_ms >= self._delta_min
        if self.found is None and is_late_enough and offset_delta >= self._offset_delta_min:
            self.found = (delta_ms, offset_delta)
