"""The sparse map from offsets to positions in one segment (``.index``).

====== ===== ====== ===============================================================
offset bytes type   field (big-endian; entries follow each other without a header)
====== ===== ====== ===============================================================
0      4     int32  last offset of a batch, relative to the segment's base offset
4      4     int32  the position of that batch in the ``.log`` file
====== ===== ====== ===============================================================

There is no checksum: an index holds nothing that the log does not, and recovery rebuilds it.

Entries are loaded into two arrays of C integers on first use, so that a lookup is one bisection in C. New ones reach
the file when the segment is rolled, flushed or closed; after a crash, recovery rebuilds them from the log. Kafka maps
10 MiB of zeros into memory for the active segment instead; both leave the same bytes in a closed segment.

Source: OffsetIndex of Kafka.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from ottla.log.config import OFFSET_INDEX_ENTRY_SIZE_BYTES
from ottla.log.index_file import IndexFile
from ottla.ports import Disk
from ottla.types import Offset

ENTRY = Struct(">ii")
RELATIVE_OFFSET_MAX = (1 << 31) - 1
_IS_LITTLE_ENDIAN = sys.byteorder == "little"
_NO_ENTRIES: "array[int]" = array("i")


class OffsetIndex:
    """See the module. Every method raises StorageError on an I/O error."""

    __slots__ = ("_offsets", "_positions", "base_offset", "file")

    def __init__(self, disk: Disk, path: str, base_offset: Offset) -> None:
        self.file = IndexFile(disk, path, OFFSET_INDEX_ENTRY_SIZE_BYTES)
        self.base_offset = base_offset
        self._offsets: array[int] | None = None
        self._positions = _NO_ENTRIES

    def __len__(self) -> int:
        offsets = self._offsets
        return len(self._load() if offsets is None else offsets)

    def append(self, offset: Offset, position: int) -> None:
        """Add a batch by its last offset; both numbers are above the last entry's."""
        offsets = self._offsets
        if offsets is None:
            offsets = self._load()
        relative = offset - self.base_offset
        assert not offsets or relative > offsets[-1], f"{self.file.path}: {offset} is not above the last entry"
        offsets.append(relative)
        self._positions.append(position)

    def lookup(self, offset: Offset) -> int:
        """Return the position where a search for ``offset`` may start: that of the last entry at or below it, or 0."""
        offsets = self._offsets
        if offsets is None:
            offsets = self._load()
        slot = bisect_right(offsets, offset - self.base_offset)
        return self._positions[slot - 1] if slot else 0

    def offset_at_position(self, position: int) -> Offset | None:
        """Return the offset of the first entry at or above ``position``; None when there is none."""
        offsets = self._load()
        slot = bisect_left(self._positions, position)
        return None if slot == len(offsets) else self.base_offset + offsets[slot]

    def entries(self) -> list[tuple[Offset, int]]:
        """Every (last offset, position)."""
        return [(self.base_offset + offset, at) for offset, at in zip(self._load(), self._positions, strict=True)]

    def last_entry(self) -> tuple[Offset, int]:
        """Return the last (offset, position) without loading the others; (base offset, 0) when there is none."""
        if self._offsets is None:
            data = self.file.read_last()
            offset, position = (0, 0) if data is None else ENTRY.unpack(data)
        elif self._offsets:
            offset, position = self._offsets[-1], self._positions[-1]
        else:
            offset, position = 0, 0
        return self.base_offset + offset, position

    def truncate_to(self, offset: Offset) -> None:
        """Drop the entries of ``offset`` and above."""
        offsets = self._load()
        count = bisect_left(offsets, offset - self.base_offset)
        if count < len(offsets):
            del offsets[count:]
            del self._positions[count:]
            self.file.saved_count = -1

    def reset(self) -> None:
        """Drop every entry without reading them: they may be corrupt."""
        self._offsets = array("i")
        self._positions = array("i")
        self.file.saved_count = -1

    def save(self) -> None:
        """Write the entries that the file does not have yet, and create the file when it is missing."""
        if self._offsets is None:
            return
        offsets = self._load()
        saved = max(self.file.saved_count, 0)
        if self.file.saved_count != len(offsets):
            self.file.write(_interleaved(offsets[saved:], self._positions[saved:]))

    def release(self) -> None:
        """Write the unwritten entries and drop all from memory; the next use reads them again."""
        self.save()
        self.drop_entries()

    def drop_entries(self) -> None:
        """Drop the entries from memory without writing: for an index whose file is being deleted."""
        self._offsets = None
        self._positions = _NO_ENTRIES

    def _load(self) -> "array[int]":
        if self._offsets is None:
            both = array("i", self.file.read_all())
            if _IS_LITTLE_ENDIAN:
                both.byteswap()
            self._offsets = both[0::2]
            self._positions = both[1::2]
        return self._offsets


def _interleaved(offsets: "array[int]", positions: "array[int]") -> bytes:
    both = array("i", bytes(len(offsets) * OFFSET_INDEX_ENTRY_SIZE_BYTES))
    both[0::2] = offsets
    both[1::2] = positions
    if _IS_LITTLE_ENDIAN:
        both.byteswap()
    return both.tobytes()
