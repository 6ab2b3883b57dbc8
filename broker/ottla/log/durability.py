"""Durability of a log: the recovery point, and the syncs that move it.

A log is synced by flush.ms, when it rolls a segment, when it is closed, and at the owner's request for
ottla.acks.fsync and flush.messages. Syncs off the loop overlap with appends, rolls and truncations: a sync that was
requested before a roll or truncation does not cover later changes, and does not move the recovery point.

flush.messages only sets the demanded offset here: JVM Kafka syncs within the append, which on one loop would delay
every other partition by the duration of a sync. The owner syncs off the loop and confirms no record meanwhile.

Source: UnifiedLog.flush of Kafka.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import StorageError, disk_error
from ottla.log.checkpoint import PARTITION_METADATA
from ottla.log.config import LONG_MAX, LogConfig
from ottla.log.file_names import SNAPSHOT_SUFFIX, segment_path
from ottla.log.leader_epoch_cache import LeaderEpochCache
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.ports import Disk, File
from ottla.types import Offset


class Durability:
    """See the module.

    Attributes:
        recovery_point: everything below is on stable storage.
        demanded_offset: flush.messages demands that everything below is on stable storage before it is confirmed.
        has_unsynced_indexes: the active segment's indexes are not on stable storage as they are; a close syncs them.
    """

    __slots__ = (
        "_changes",
        "_disk",
        "_epochs",
        "_first_unflushed_ms",
        "_generation",
        "_has_unsynced_name",
        "_is_blank",
        "_is_flushing",
        "_sealed",
        "_segments",
        "_synced_changes",
        "_synced_epochs",
        "_unflushed_records",
        "_unsynced_snapshots",
        "demanded_offset",
        "directory",
        "has_unsynced_indexes",
        "recovery_point",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        segments: Segments,
        epochs: LeaderEpochCache,
        recovery_point: Offset,
        has_changed_files: bool,
        has_unsynced_indexes: bool,
        is_blank: bool,
        unsynced_snapshots: tuple[Offset, ...],
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._segments = segments
        self._epochs = epochs
        self.recovery_point = recovery_point
        self.demanded_offset: Offset = 0
        # Counts changes of file names and sizes: those after the start of a sync must be synced again.
        self._changes = int(has_changed_files)
        self._synced_changes = 0
        self._synced_epochs = 0
        self._unflushed_records = 0
        self._first_unflushed_ms = LONG_MAX
        # Never written to: a lost one would be created again with the same contents.
        self._is_blank = is_blank
        self._has_unsynced_name = False
        self._is_flushing = False
        self._generation = 0
        self._sealed: list[Segment] = []
        self._unsynced_snapshots = unsynced_snapshots
        self.has_unsynced_indexes = has_unsynced_indexes

    def on_sealed(self, segment: Segment) -> None:
        """Register a segment that was rolled or closed: from now on its indexes are trusted.

        Until they are synced too, the recovery point stays below the segment, so that recovery rebuilds them.
        """
        self._sealed = [*self._sealed, segment]
        self._generation += 1
        self.recovery_point = min(self.recovery_point, segment.base_offset)
        self.has_unsynced_indexes = False

    def on_snapshot_written(self, offset: Offset) -> None:
        """Sync the producers' snapshot at ``offset`` with the next sync.

        Once the segments below it are deleted, no other copy of the producers' state is left.
        """
        self._unsynced_snapshots = (*self._unsynced_snapshots, offset)

    def is_snapshot_synced(self, offset: Offset) -> bool:
        """Return whether the producers' snapshot at ``offset``, if one was written, is on stable storage."""
        return offset not in self._unsynced_snapshots

    def replace(self, replaced: "Durability") -> None:
        """Confirm what ``replaced`` does until the new name of this log's directory is synced too, with its next sync.

        Before that a power cut may take the name: the log of that name is then the replaced one again, in another log
        directory.
        """
        self._generation += 1
        self._has_unsynced_name = True
        self.recovery_point = min(self.recovery_point, replaced.recovery_point)
        self.demanded_offset = replaced.demanded_offset

    def on_files_changed(self) -> None:
        """Register that files were created, renamed or truncated."""
        self._changes += 1

    def on_appended(self, record_count: int, end_offset: Offset, config: LogConfig, now_ms: int) -> None:
        if self._unflushed_records == 0:
            self._first_unflushed_ms = now_ms
        self._unflushed_records += record_count
        if self._unflushed_records >= config.flush_messages:
            self.demanded_offset = end_offset
        self.has_unsynced_indexes = True
        self._is_blank = False

    def on_truncated(self, end_offset: Offset) -> None:
        self._generation += 1
        self._changes += 1
        self._is_blank = False
        self.has_unsynced_indexes = True
        self.recovery_point = min(self.recovery_point, end_offset)
        self.demanded_offset = min(self.demanded_offset, end_offset)

    def confirmable_offset(self, end_offset: Offset, config: LogConfig) -> Offset:
        """Return the offset below which records may be confirmed, to a producer or, with a fetch, to the leader.

        That is ``end_offset``, the log end; with ottla.acks.fsync, and until a sync demanded by flush.messages is done,
        it is the recovery point.
        """
        if config.ottla_acks_fsync or self.demanded_offset > self.recovery_point:
            return self.recovery_point
        return end_offset

    def is_flush_due(self, config: LogConfig, now_ms: int) -> bool:
        """Whether the oldest unflushed record is older than flush.ms, and no sync is under way."""
        is_old = self._unflushed_records > 0 and now_ms - self._first_unflushed_ms >= config.flush_ms
        return is_old and not self._is_flushing

    def flush(self, end_offset: Offset) -> None:
        """Sync everything below ``end_offset`` before returning.

        Raises:
            StorageError: an I/O error.
        """
        sync = self.begin_flush(end_offset)
        sync.perform()
        self.end_flush(sync, end_offset)

    def begin_flush(self, end_offset: Offset) -> "Sync":
        """Return the sync that makes everything below ``end_offset`` durable; its end calls `end_flush`.

        Raises:
            StorageError: a file could not even be opened.
        """
        if self._is_blank or (self.recovery_point >= end_offset and not self._has_unsynced_files()):
            return Sync(self.directory, [], self._synced_changes, self._synced_epochs, [], ())
        return self._prepare()

    def end_flush(self, sync: "Sync", end_offset: Offset) -> None:
        """Apply a completed ``sync``, since whose start nothing was changed."""
        self._on_synced(sync)
        self.recovery_point = max(self.recovery_point, end_offset)
        self._unflushed_records = 0

    def flush_later(self, end_offset: Offset, done: Callable[[StorageError | None], None]) -> None:
        """Sync everything below ``end_offset`` off the loop, then call ``done`` on it.

        Raises:
            StorageError: a file could not even be opened.
        """
        generation = self._generation
        sync = self._prepare()
        self._is_flushing = True

        def synced(error: OSError | None) -> None:
            self._is_flushing = False
            if error is not None:
                failure = StorageError(f"cannot sync the log in {self.directory}: {error}")
                failure.__cause__ = error
                done(failure)
                return
            if generation == self._generation:
                self._on_synced(sync)
                self.recovery_point = max(self.recovery_point, end_offset)
            done(None)

        self._unflushed_records = 0
        self._disk.sync_later(sync.files, synced)

    def _has_unsynced_files(self) -> bool:
        return (
            self._changes != self._synced_changes
            or self._epochs.change_count != self._synced_epochs
            or bool(self._sealed)
            or bool(self._unsynced_snapshots)
            or self._has_unsynced_name
        )

    def _prepare(self) -> "Sync":
        """Write everything, and return the files to sync with the state that a success will confirm."""
        segments = self._segments
        sealed = [segment for segment in self._sealed if segments.floor(segment.base_offset) is segment]
        snapshots = self._unsynced_snapshots
        has_name = self._has_unsynced_name
        sync = Sync(self.directory, [], self._changes, self._epochs.change_count, self._sealed, snapshots, has_name)
        for segment in dict.fromkeys([*sealed, *segments.starting_with(self.recovery_point)]):
            is_active = segment is segments.active and segment not in sealed
            sync.files.extend(segment.files_to_sync(with_indexes=not is_active))
        try:
            for offset in snapshots:
                path = segment_path(self.directory, offset, SNAPSHOT_SUFFIX)
                if self._disk.exists(path):  # else its segment has been deleted, or the log truncated
                    sync.files.append(self._disk.open(path, read_only=True))
            if sync.epochs != self._synced_epochs:
                sync.files.append(self._disk.open(self._epochs.path, read_only=True))
            if sync.epochs != self._synced_epochs or sync.changes != self._synced_changes:
                # A log with a corrupt topic id is not used any more, even if its records are intact.
                metadata = f"{self.directory}/{PARTITION_METADATA}"
                if self._disk.exists(metadata):
                    sync.files.append(self._disk.open(metadata, read_only=True))
                sync.files.append(self._disk.open(self.directory, read_only=True))
            if has_name:
                sync.files.append(self._disk.open(self.directory.rpartition("/")[0], read_only=True))
        except OSError as error:
            raise disk_error(f"cannot open {self.directory} to sync it", error) from error
        return sync

    def _on_synced(self, sync: "Sync") -> None:
        self._synced_changes = max(self._synced_changes, sync.changes)
        self._synced_epochs = max(self._synced_epochs, sync.epochs)
        self._sealed = [segment for segment in self._sealed if segment not in sync.sealed]
        self._unsynced_snapshots = tuple(each for each in self._unsynced_snapshots if each not in sync.snapshots)
        self._has_unsynced_name = self._has_unsynced_name and not sync.has_name


class Sync(NamedTuple):
    """One sync: its files, and the changes, epochs, segments, snapshots and name that it makes durable of one log."""

    directory: str
    files: list[File]
    changes: int
    epochs: int
    sealed: list[Segment]
    snapshots: tuple[Offset, ...]
    has_name: bool = False

    def perform(self) -> None:
        """Sync the files, one after the other.

        Raises:
            StorageError: an I/O error.
        """
        try:
            for file in self.files:
                file.sync()
        except OSError as error:
            raise StorageError(f"cannot sync the log in {self.directory}: {error}") from error
