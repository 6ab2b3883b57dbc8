"""The segments of one log, by base offset.

Source: LogSegments of Kafka.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ottla.log.segment import Segment
from ottla.types import Offset


class Segments:
    """Segments in ascending order; ``active`` is the last one, which is appended to."""

    __slots__ = ("_base_offsets", "_segments", "active")

    active: Segment

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=_base_offset)
        self._base_offsets = [segment.base_offset for segment in self._segments]
        if self._segments:
            self.active = self._segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(tuple(self._segments))

    @property
    def first(self) -> Segment:
        return self._segments[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Add a segment; it replaces one with the same base offset."""
        slot = bisect_left(self._base_offsets, segment.base_offset)
        if slot < len(self._base_offsets) and self._base_offsets[slot] == segment.base_offset:
            self._segments[slot] = segment
        else:
            self._segments.insert(slot, segment)
            self._base_offsets.insert(slot, segment.base_offset)
        self.active = self._segments[-1]

    def remove(self, segment: Segment) -> None:
        """Remove a segment. A log always has an active segment: add the new one before the last one is removed."""
        slot = bisect_left(self._base_offsets, segment.base_offset)
        if slot == len(self._segments) or self._segments[slot] is not segment:
            return
        del self._segments[slot]
        del self._base_offsets[slot]
        if self._segments:
            self.active = self._segments[-1]

    def floor(self, offset: Offset) -> Segment | None:
        """Return the segment that ``offset`` belongs to: the last one that starts at or below it."""
        slot = bisect_right(self._base_offsets, offset)
        return self._segments[slot - 1] if slot else None

    def starting_with(self, offset: Offset) -> list[Segment]:
        """Return the segment that ``offset`` belongs to, and those after it."""
        return self._segments[max(0, bisect_right(self._base_offsets, offset) - 1) :]

    def after(self, segment: Segment) -> Segment | None:
        """Return the segment that follows."""
        slot = bisect_right(self._base_offsets, segment.base_offset)
        return self._segments[slot] if slot < len(self._segments) else None


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset
