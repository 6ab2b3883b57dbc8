"""The sparse map from timestamps to offsets in one segment (``.timeindex``).

====== ===== ====== ===============================================================
offset bytes type   field (big-endian; entries follow each other without a header)
====== ===== ====== ===============================================================
0      8     int64  the largest timestamp (ms) in the segment so far
8      4     int32  last offset of the batch that has it, relative to the base offset
====== ===== ====== ===============================================================

Invariant of an entry: no record before its offset has a later timestamp. Timestamps ascend strictly, offsets never
descend. There is no checksum, as for `offset_index`, whose notes on memory apply here too.

Source: TimeIndex of Kafka.
"""

from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from ottla.log.config import TIME_INDEX_ENTRY_SIZE_BYTES
from ottla.log.index_file import IndexFile
from ottla.ports import Disk
from ottla.types import Offset
from ottla.wire.records import NO_TIMESTAMP

ENTRY = Struct(">qi")
_NO_ENTRIES: "array[int]" = array("i")


class TimeIndex:
    """See the module. Every method raises StorageError on an I/O error."""

    __slots__ = ("_offsets", "_timestamps_ms", "base_offset", "file")

    def __init__(self, disk: Disk, path: str, base_offset: Offset) -> None:
        self.file = IndexFile(disk, path, TIME_INDEX_ENTRY_SIZE_BYTES)
        self.base_offset = base_offset
        self._timestamps_ms: array[int] | None = None
        self._offsets = _NO_ENTRIES

    def __len__(self) -> int:
        timestamps_ms = self._timestamps_ms
        return len(self._load() if timestamps_ms is None else timestamps_ms)

    def append_if_later(self, timestamp_ms: int, offset: Offset) -> None:
        """Add an entry unless ``timestamp_ms`` is not above the last one's."""
        timestamps_ms = self._timestamps_ms
        if timestamps_ms is None:
            timestamps_ms = self._load()
        if timestamp_ms > (timestamps_ms[-1] if timestamps_ms else NO_TIMESTAMP):
            timestamps_ms.append(timestamp_ms)
            self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp_ms: int) -> Offset:
        """Return the offset from which a search may start: of the last entry at or below, or the base offset."""
        slot = bisect_right(self._load(), timestamp_ms)
        return self.base_offset + (self._offsets[slot - 1] if slot else 0)

    def entries(self) -> list[tuple[int, Offset]]:
        """Every (timestamp, offset)."""
        return [(at_ms, self.base_offset + offset) for at_ms, offset in zip(self._load(), self._offsets, strict=True)]

    def last_entry(self) -> tuple[int, Offset]:
        """Return the last (timestamp, offset) without loading the others; (-1, base offset) when there is none."""
        if self._timestamps_ms is None:
            data = self.file.read_last()
            timestamp_ms, offset = (NO_TIMESTAMP, 0) if data is None else ENTRY.unpack(data)
        elif self._timestamps_ms:
            timestamp_ms, offset = self._timestamps_ms[-1], self._offsets[-1]
        else:
            timestamp_ms, offset = NO_TIMESTAMP, 0
        return timestamp_ms, self.base_offset + offset

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries of ``offset`` and above."""
        timestamps_ms = self._load()
        count = bisect_left(self._offsets, offset - self.base_offset)
        if count < len(timestamps_ms):
            del timestamps_ms[count:]
            del self._offsets[count:]
            self.file.saved_count = -1

    def reset(self) -> None:
        """Drop every entry without reading them: they may be corrupt."""
        self._timestamps_ms = array("q")
        self._offsets = array("i")
        self.file.saved_count = -1

    def save(self) -> None:
        """Write the entries that the file does not have yet, and create the file when it is missing."""
        if self._timestamps_ms is None:
            return
        timestamps_ms = self._load()
        saved = max(self.file.saved_count, 0)
        if self.file.saved_count != len(timestamps_ms):
            new = zip(timestamps_ms[saved:], self._offsets[saved:], strict=True)
            self.file.write(b"".join(ENTRY.pack(at_ms, offset) for at_ms, offset in new))

    def release(self) -> None:
        """Write the unwritten entries and drop all from memory; the next use reads them again."""
        self.save()
        self.drop_entries()

    def drop_entries(self) -> None:
        """Drop the entries from memory without writing: for an index whose file is being deleted."""
        self._timestamps_ms = None
        self._offsets = _NO_ENTRIES

    def _load(self) -> "array[int]":
        if self._timestamps_ms is None:
            entries = list(ENTRY.iter_unpack(self.file.read_all()))
            self._timestamps_ms = array("q", [entry[0] for entry in entries])
            self._offsets = array("i", [entry[1] for entry in entries])
        return self._timestamps_ms
