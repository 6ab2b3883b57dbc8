"""How much of a log is on stable storage: the recovery point, and what moves it.

A log is synced when flush.messages or flush.ms say so, when it rolls a segment, when it is closed, when the owner
asks (``acks.fsync``). Syncs off the loop overlap with appends, rolls and truncations: one that was asked for before a
roll or truncation says nothing about what came after it, and does not move the recovery point.

Source: UnifiedLog.flush of Kafka.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import StorageError, disk_error
from ottla.log.config import LONG_MAX, LogConfig
from ottla.log.leader_epoch_cache import LeaderEpochCache
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.ports import Disk, File
from ottla.types import Offset


class Durability:
    """See the module.

    Attributes:
        recovery_point: everything below is on stable storage.
        has_unsynced_indexes: the active segment's indexes are not on stable storage as they are; a close syncs them.
    """

    __slots__ = (
        "_changes",
        "_disk",
        "_epochs",
        "_first_unflushed_ms",
        "_generation",
        "_is_blank",
        "_is_flushing",
        "_sealed",
        "_segments",
        "_synced_changes",
        "_synced_epochs",
        "_unflushed_records",
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
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._segments = segments
        self._epochs = epochs
        self.recovery_point = recovery_point
        # Names and sizes of files, counted: what a sync under way has not confirmed is still to be synced.
        self._changes = int(has_changed_files)
        self._synced_changes = 0
        self._synced_epochs = 0
        self._unflushed_records = 0
        self._first_unflushed_ms = LONG_MAX
        # Never written to: if it were lost, it would be made anew just the same.
        self._is_blank = is_blank
        self._is_flushing = False
        self._generation = 0
        self._sealed: list[Segment] = []
        self.has_unsynced_indexes = has_unsynced_indexes

    def on_sealed(self, segment: Segment) -> None:
        """Note a segment that was rolled or closed: from now on its indexes will be believed.

        Until they are synced too, the recovery point stays below the segment, so that recovery makes them anew.
        """
        self._sealed = [*self._sealed, segment]
        self._generation += 1
        self.recovery_point = min(self.recovery_point, segment.base_offset)
        self.has_unsynced_indexes = False

    def on_files_changed(self) -> None:
        """Note that files were made, renamed or cut."""
        self._changes += 1

    def on_appended(self, record_count: int, now_ms: int) -> None:
        if self._unflushed_records == 0:
            self._first_unflushed_ms = now_ms
        self._unflushed_records += record_count
        self.has_unsynced_indexes = True
        self._is_blank = False

    def on_truncated(self, end_offset: Offset) -> None:
        self._generation += 1
        self._changes += 1
        self._is_blank = False
        self.has_unsynced_indexes = True
        self.recovery_point = min(self.recovery_point, end_offset)

    def must_flush(self, config: LogConfig) -> bool:
        """Whether flush.messages is reached, so that the append must not be answered before a sync."""
        return self._unflushed_records >= config.flush_messages

    def is_flush_due(self, config: LogConfig, now_ms: int) -> bool:
        """Whether the oldest unflushed record is older than flush.ms, and no sync is under way."""
        is_old = self._unflushed_records > 0 and now_ms - self._first_unflushed_ms >= config.flush_ms
        return is_old and not self._is_flushing

    def flush(self, end_offset: Offset) -> None:
        """Sync everything below ``end_offset`` before returning.

        Raises:
            StorageError: the disk refused.
        """
        sync = self.begin_flush(end_offset)
        sync.perform()
        self.end_flush(sync, end_offset)

    def begin_flush(self, end_offset: Offset) -> "Sync":
        """Return what is to be synced before everything below ``end_offset`` is durable, for `end_flush`.

        Raises:
            StorageError: a file could not even be opened.
        """
        if self._is_blank or (self.recovery_point >= end_offset and not self._has_unsynced_files()):
            return Sync(self.directory, [], self._synced_changes, self._synced_epochs, [])
        return self._prepare()

    def end_flush(self, sync: "Sync", end_offset: Offset) -> None:
        """Note that ``sync`` is done, and nothing was changed since it began."""
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
        )

    def _prepare(self) -> "Sync":
        """Return the files to sync, everything written into them, and what a success will confirm."""
        segments = self._segments
        sealed = [segment for segment in self._sealed if segments.floor(segment.base_offset) is segment]
        sync = Sync(self.directory, [], self._changes, self._epochs.change_count, self._sealed)
        for segment in dict.fromkeys([*sealed, *segments.starting_with(self.recovery_point)]):
            is_active = segment is segments.active and segment not in sealed
            sync.files.extend(segment.files_to_sync(with_indexes=not is_active))
        try:
            if sync.epochs != self._synced_epochs:
                sync.files.append(self._disk.open(self._epochs.path, read_only=True))
            if sync.epochs != self._synced_epochs or sync.changes != self._synced_changes:
                sync.files.append(self._disk.open(self.directory, read_only=True))
        except OSError as error:
            raise disk_error(f"cannot open {self.directory} to sync it", error) from error
        return sync

    def _on_synced(self, sync: "Sync") -> None:
        self._synced_changes = max(self._synced_changes, sync.changes)
        self._synced_epochs = max(self._synced_epochs, sync.epochs)
        self._sealed = [segment for segment in self._sealed if segment not in sync.sealed]


class Sync(NamedTuple):
    """One sync: its files, and the counts and segments of the log in ``directory`` that it makes durable."""

    directory: str
    files: list[File]
    changes: int
    epochs: int
    sealed: list[Segment]

    def perform(self) -> None:
        """Sync the files, one after the other.

        Raises:
            StorageError: the disk refused.
        """
        try:
            for file in self.files:
                file.sync()
        except OSError as error:
            raise StorageError(f"cannot sync the log in {self.directory}: {error}") from error
