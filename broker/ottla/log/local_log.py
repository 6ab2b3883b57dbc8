"""The files of one log: its segments and what belongs to them, made, rolled, cut, moved and deleted together.

Knows nothing of watermarks, producers or leaders: `PartitionLog` does, and decides.
Every method raises StorageError where the disk refuses.

Source: LocalLog of Kafka.
"""

from ottla.errors import StorageError
from ottla.log.checkpoint import LEADER_EPOCH_CHECKPOINT
from ottla.log.deleted_files import DeletedFiles
from ottla.log.durability import Durability
from ottla.log.log_reader import LogReader
from ottla.log.open_files import OpenFiles
from ottla.log.recovery import LoadedLog
from ottla.log.segment import Segment
from ottla.ports import Disk
from ottla.types import Offset


class LocalLog:
    """See the module.

    Attributes:
        directory: where the files are.
        segments: at least one; the last one is active.
        epochs: which leader epoch starts where.
        snapshots: of the producers' state.
        deleted: files that wait for their removal.
        durability: how much is on stable storage.
        reader: finds what fetches want.
    """

    __slots__ = (
        "_disk",
        "_open_files",
        "deleted",
        "directory",
        "durability",
        "epochs",
        "reader",
        "segments",
        "snapshots",
    )

    def __init__(self, *, disk: Disk, directory: str, open_files: OpenFiles, loaded: LoadedLog) -> None:
        self._disk = disk
        self._open_files = open_files
        self.directory = directory
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.snapshots = loaded.snapshots
        self.deleted = DeletedFiles(disk)
        self.reader = LogReader(loaded.segments)
        self.durability = Durability(
            disk=disk,
            directory=directory,
            segments=loaded.segments,
            epochs=loaded.epochs,
            recovery_point=loaded.recovery_point,
            has_new_names=loaded.has_new_names,
        )

    def roll(self, base_offset: Offset, now_ms: int) -> bool:
        """Start a segment at ``base_offset``; return False when the active one is empty and starts there already."""
        old = self.segments.active
        if old.base_offset == base_offset:
            return False
        old.become_inactive()
        self._start_segment(base_offset, now_ms)
        return True

    def _start_segment(self, base_offset: Offset, now_ms: int) -> None:
        segment = Segment(
            disk=self._disk,
            open_files=self._open_files,
            directory=self.directory,
            base_offset=base_offset,
            size_bytes=0,
            created_ms=now_ms,
        )
        segment.create()
        self.segments.add(segment)
        self.durability.has_new_names = True

    def delete_segment(self, segment: Segment, *, due_ms: int) -> None:
        """Take a segment out of the log; its files are removed at ``due_ms``."""
        segment.discard()
        self.segments.remove(segment)
        paths = segment.paths()
        if self.snapshots.forget(segment.base_offset):
            paths.append(self.snapshots.path(segment.base_offset))
        for path in paths:
            self.deleted.mark(path, due_ms=due_ms)

    def truncate_to(self, offset: Offset, *, due_ms: int) -> Offset:
        """Remove the records from ``offset`` on, which is at or above the first segment's; return the new log end."""
        for segment in reversed(list(self.segments)):
            if segment.base_offset > offset:
                self.delete_segment(segment, due_ms=due_ms)
        end_offset = min(offset, self.segments.active.truncate_to(offset))
        self.snapshots.remove_above(end_offset)
        self._on_truncated(end_offset)
        return end_offset

    def truncate_fully(self, offset: Offset, *, now_ms: int, due_ms: int) -> None:
        """Remove everything; the one segment that is left starts at ``offset``."""
        for segment in self.segments:
            self.delete_segment(segment, due_ms=due_ms)
        self._start_segment(offset, now_ms)
        self.snapshots.remove_above(-1)
        self.epochs.clear()
        self._on_truncated(offset)

    def _on_truncated(self, end_offset: Offset) -> None:
        self.epochs.truncate_from_end(end_offset)
        self.durability.on_truncated(end_offset)
        self.reader.on_truncated()

    def close(self, end_offset: Offset) -> None:
        """Put everything below ``end_offset`` on stable storage, then let go of every file."""
        self.segments.active.become_inactive()
        self.durability.flush(end_offset)
        for segment in self.segments:
            segment.close()

    def release(self) -> None:
        """Let go of every file without writing anything."""
        for segment in self.segments:
            segment.discard()

    def rename_directory(self, directory: str) -> None:
        """Move everything to ``directory``, on the same file system."""
        for segment in self.segments:
            segment.close()
        try:
            self._disk.rename(self.directory, directory)
        except OSError as error:
            raise StorageError(f"cannot rename {self.directory} to {directory}: {error}") from error
        for segment in self.segments:
            segment.move_to(directory)
        self.epochs.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self.snapshots.directory = directory
        self.deleted.move_to(self.directory, directory)
        self.durability.directory = directory
        self.directory = directory

    def remove_directory(self) -> None:
        """Remove the directory and everything in it."""
        self.release()
        try:
            self._disk.remove_tree(self.directory)
        except OSError as error:
            raise StorageError(f"cannot remove {self.directory}: {error}") from error
