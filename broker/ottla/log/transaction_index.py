"""The aborted transactions that end in one segment (``.txnindex``); the file exists only where there are any.

====== ===== ====== ===============================================================
offset bytes type   field (big-endian; entries follow each other without a header)
====== ===== ====== ===============================================================
0      2     int16  version: 0
2      8     int64  producer id
10     8     int64  first offset of the transaction
18     8     int64  last offset: its ABORT marker's
26     8     int64  last stable offset when the marker was written
====== ===== ====== ===============================================================

Entries ascend by last offset. There is no checksum: recovery finds the markers again in the log.
Source: TransactionIndex and AbortedTxn of Kafka.
"""

from struct import Struct
from typing import NamedTuple

from ottla.errors import StorageError
from ottla.log.index_file import IndexFile
from ottla.ports import Disk
from ottla.types import Offset, ProducerId

ENTRY = Struct(">hqqqq")
VERSION = 0


class AbortedTransaction(NamedTuple):
    """A transaction that a read_committed reader must skip; ``last_offset`` is its marker's."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class TransactionIndex:
    """See the module. Every method raises StorageError on an I/O error."""

    __slots__ = ("_entries", "base_offset", "exists", "file")

    def __init__(self, disk: Disk, path: str, base_offset: Offset, *, exists: bool) -> None:
        self.file = IndexFile(disk, path, ENTRY.size)
        self.base_offset = base_offset
        self.exists = exists
        self._entries: list[AbortedTransaction] | None = None if exists else []

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction and write it at once: aborts are rare, and readers without it would see aborted records."""
        entries = self.entries()
        assert not entries or entries[-1].last_offset < transaction.last_offset, f"{self.file.path}: out of order"
        self.file.write(ENTRY.pack(VERSION, *transaction))
        self.exists = True
        entries.append(transaction)

    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = parse_entries(self.file.read_all(), self.file.path)
        return self._entries

    def collect(self, start_offset: Offset, upper_bound_offset: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Return those that overlap start <= offset < upper bound, and whether no later segment can have more."""
        if not self.exists:
            return [], False
        found = []
        for entry in self.entries():
            if entry.last_offset >= start_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: Offset) -> None:
        """Drop the transactions whose marker is at ``offset`` or above."""
        if not self.exists:
            return
        kept = [entry for entry in self.entries() if entry.last_offset < offset]
        if len(kept) < len(self.entries()):
            self._rewrite(kept)

    def reset(self) -> None:
        """Drop every entry without reading them: they may be corrupt."""
        if self.exists:
            self._rewrite([])

    def is_sane(self) -> bool:
        """Whether the file could be an index of this segment."""
        if not self.exists:
            return True
        try:
            entries = parse_entries(self.file.read_all(), self.file.path)
        except StorageError:
            return False
        return self.file.is_whole and all(entry.last_offset >= self.base_offset for entry in entries)

    def release(self) -> None:
        if self.exists:
            self._entries = None

    def _rewrite(self, entries: list[AbortedTransaction]) -> None:
        self.file.saved_count = -1
        self.file.write(b"".join(ENTRY.pack(VERSION, *entry) for entry in entries))
        self._entries = entries


def parse_entries(data: bytes, path: str) -> list[AbortedTransaction]:
    """Read a file's entries.

    Raises:
        StorageError: an entry has another version.
    """
    entries: list[AbortedTransaction] = []
    for version, *fields in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size]):
        if version != VERSION:
            raise StorageError(f"{path}: entry {len(entries)} has version {version}; only {VERSION} is known")
        entries.append(AbortedTransaction(*fields))
    return entries
