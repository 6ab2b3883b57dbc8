"""Find the bytes for a fetch, without reading them.

A read costs an index lookup and the headers between two index entries. Its end needs no search: as in Kafka, the slice
ends at the size that the reader allows, and readers drop the partial batch at the end.

Source: LogSegment.read, LocalLog.read and LocalLog.collectAbortedTransactions of Kafka; KIP-74.
"""

from typing import NamedTuple

from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.log.transaction_index import AbortedTransaction
from ottla.ports import FileSlice
from ottla.types import Offset


class LogSlice(NamedTuple):
    """The result of a read: bytes that stay on the disk until they are sent.

    Attributes:
        records: from the first byte of the batch that holds the requested offset; the last batch may be partial, the
            first only without ``at_least_one``. None when there is nothing below the upper bound.
        aborted_transactions: those that overlap the slice, by marker; None when they were not requested.
    """

    records: FileSlice | None
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


_NOTHING = LogSlice(None)
_NOTHING_AND_NONE_ABORTED = LogSlice(None, ())


class LogReader:
    """See the module. Caches the position of the last upper bound: many fetches in a row have the same."""

    __slots__ = ("_bound_offset", "_bound_position", "_bound_segment", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._bound_offset: Offset = -1
        self._bound_segment: Segment | None = None
        self._bound_position = 0

    def on_truncated(self) -> None:
        """Drop the cached upper bound."""
        self._bound_segment = None

    def read(
        self,
        start_offset: Offset,
        *,
        size_bytes_max: int,
        upper_bound_offset: Offset,
        log_end_offset: Offset,
        at_least_one: bool,
        with_aborted_transactions: bool,
    ) -> LogSlice:
        """Return where the records from ``start_offset`` up to ``upper_bound_offset`` are; see `PartitionLog.read`."""
        nothing = _NOTHING_AND_NONE_ABORTED if with_aborted_transactions else _NOTHING
        segment = self._segments.floor(start_offset)
        while segment is not None and start_offset < upper_bound_offset:
            place = segment.find(start_offset)
            if place is None:
                # Compaction removed the segment's last records: the next segment has the first one at or above.
                segment = self._segments.after(segment)
                continue
            end_position = segment.size_bytes
            if upper_bound_offset < log_end_offset:
                end_position = self._end_position(segment, upper_bound_offset)
            wanted_bytes = size_bytes_max
            if at_least_one and place.size_bytes > wanted_bytes:
                wanted_bytes = place.size_bytes
            size_bytes = min(end_position - place.position, wanted_bytes)
            if size_bytes <= 0:
                return nothing
            found = FileSlice(segment.file, place.position, size_bytes)
            if not with_aborted_transactions:
                return LogSlice(found)
            return LogSlice(found, self._aborted(start_offset, segment, place.position + size_bytes, log_end_offset))
        return nothing

    def _end_position(self, segment: Segment, upper_bound_offset: Offset) -> int:
        """Return where in ``segment`` the batches below the upper bound end."""
        if upper_bound_offset == self._bound_offset and segment is self._bound_segment:
            return self._bound_position
        following = self._segments.after(segment)
        if following is not None and upper_bound_offset >= following.base_offset:
            return segment.size_bytes
        place = segment.find(upper_bound_offset)
        position = segment.size_bytes if place is None else place.position
        self._bound_offset, self._bound_segment, self._bound_position = upper_bound_offset, segment, position
        return position

    def _aborted(
        self, start_offset: Offset, segment: Segment, end_position: int, log_end_offset: Offset
    ) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that overlap a slice of ``segment`` which ends at ``end_position``."""
        upper_bound_offset = segment.offset_index.offset_at_position(end_position)
        if upper_bound_offset is None:
            following = self._segments.after(segment)
            upper_bound_offset = log_end_offset if following is None else following.base_offset
        found: list[AbortedTransaction] = []
        for candidate in self._segments.starting_with(segment.base_offset):
            transactions, is_complete = candidate.transaction_index.collect(start_offset, upper_bound_offset)
            found += transactions
            if is_complete:
                break
        return tuple(found)
