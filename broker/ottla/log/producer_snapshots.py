"""The ``.snapshot`` files of one log: the producers' state between runs.

One is written at every roll, named by the new segment's base offset, and one at a clean close, named by the log end
offset. A snapshot is removed with its segment. The caller syncs what `write` has written: a lost snapshot can be
rebuilt from the log only as long as the segments below it are there.

Source: ProducerStateManager of Kafka.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable

from ottla.errors import CorruptRecordError, disk_error
from ottla.log.deleted_files import remove_file
from ottla.log.file_names import SNAPSHOT_SUFFIX, segment_path
from ottla.log.producer_state import ProducerState, format_snapshot, parse_snapshot
from ottla.ports import Disk
from ottla.types import Offset


class ProducerSnapshots:
    """See the module. ``offsets`` ascend. Every method raises StorageError on an I/O error."""

    __slots__ = ("_disk", "directory", "offsets")

    def __init__(self, disk: Disk, directory: str, offsets: Iterable[Offset] = ()) -> None:
        self._disk = disk
        self.directory = directory
        self.offsets = sorted(offsets)

    def path(self, offset: Offset) -> str:
        return segment_path(self.directory, offset, SNAPSHOT_SUFFIX)

    def write(self, state: ProducerState) -> bool:
        """Write the state as of its end offset; return False if there is such a snapshot already."""
        offset = state.end_offset
        if self.offsets and self.offsets[-1] >= offset:
            return False
        path = self.path(offset)
        try:
            file = self._disk.open(path, create=True)
            try:
                file.truncate(0)
                file.pwritev([format_snapshot(state.producers.values())], 0)
            finally:
                file.close()
        except OSError as error:
            raise disk_error(f"cannot write {path}", error) from error
        insort(self.offsets, offset)
        return True

    def load_latest(self, state: ProducerState, *, start_offset: Offset, end_offset: Offset, now_ms: int) -> None:
        """Set ``state`` to the newest valid snapshot at or below ``end_offset``, or to empty at ``start_offset``.

        Corrupt snapshots found meanwhile are removed.
        """
        slot = bisect_left(self.offsets, end_offset + 1)
        for offset in reversed(self.offsets[:slot]):
            try:
                entries = parse_snapshot(self._read(offset), self.path(offset))
            except CorruptRecordError:
                self.remove(offset)
                continue
            state.load(entries, end_offset=offset, now_ms=now_ms)
            return
        state.clear(start_offset)

    def remove(self, offset: Offset) -> None:
        """Remove one; no error when there is none."""
        if offset in self.offsets:
            self.offsets.remove(offset)
        remove_file(self._disk, self.path(offset))

    def remove_above(self, offset: Offset) -> None:
        for stale in [known for known in self.offsets if known > offset]:
            self.remove(stale)

    def remove_strays(self, base_offsets: Iterable[Offset]) -> None:
        """Remove those that belong to no segment, except for the newest, which a clean close wrote."""
        kept = set(base_offsets)
        kept.update(self.offsets[-1:])
        for stray in [known for known in self.offsets if known not in kept]:
            self.remove(stray)

    def unregister(self, offset: Offset) -> bool:
        """Unregister a snapshot whose file the caller removes; return whether there was one."""
        if offset not in self.offsets:
            return False
        self.offsets.remove(offset)
        return True

    def _read(self, offset: Offset) -> bytes:
        path = self.path(offset)
        try:
            file = self._disk.open(path, read_only=True)
            try:
                return file.pread(file.size_bytes(), 0)
            finally:
                file.close()
        except OSError as error:
            raise disk_error(f"cannot read {path}", error) from error
