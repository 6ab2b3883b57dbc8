"""How much of a log is on stable storage: the recovery point, and what moves it.

A log is synced when flush.messages or flush.ms say so, when it rolls a segment, when it is closed, when the owner
asks (``acks.fsync``). Syncs off the loop overlap with appends and truncations: one that was asked for before a
truncation proves nothing about what was written after it, and does not move the recovery point.

Source: UnifiedLog.flush of Kafka.
"""

from collections.abc import Callable

from ottla.errors import StorageError
from ottla.log.config import LONG_MAX, LogConfig
from ottla.log.leader_epoch_cache import LeaderEpochCache
from ottla.log.segments import Segments
from ottla.ports import Disk, File
from ottla.types import Offset


class Durability:
    """See the module.

    Attributes:
        recovery_point: everything below is on stable storage.
        has_new_names: files were made or renamed since the directory was synced.
    """

    __slots__ = (
        "_disk",
        "_epochs",
        "_first_unflushed_ms",
        "_is_flushing",
        "_segments",
        "_truncations",
        "_unflushed_records",
        "directory",
        "has_new_names",
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
        has_new_names: bool,
    ) -> None:
        self._disk = disk
        self.directory = directory
        self._segments = segments
        self._epochs = epochs
        self.recovery_point = recovery_point
        self.has_new_names = has_new_names
        self._unflushed_records = 0
        self._first_unflushed_ms = LONG_MAX
        self._is_flushing = False
        self._truncations = 0

    def on_appended(self, record_count: int, now_ms: int) -> None:
        if self._unflushed_records == 0:
            self._first_unflushed_ms = now_ms
        self._unflushed_records += record_count

    def on_truncated(self, end_offset: Offset) -> None:
        self._truncations += 1
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
        if self.recovery_point >= end_offset and not self.has_new_names:
            return
        files = self._files_to_sync()
        try:
            for file in files:
                file.sync()
        except OSError as error:
            raise StorageError(f"cannot sync the log in {self.directory}: {error}") from error
        self.recovery_point = max(self.recovery_point, end_offset)
        self._unflushed_records = 0

    def flush_later(self, end_offset: Offset, done: Callable[[StorageError | None], None]) -> None:
        """Sync everything below ``end_offset`` off the loop, then call ``done`` on it.

        Raises:
            StorageError: a file could not even be opened.
        """
        truncations = self._truncations
        files = self._files_to_sync()
        self._is_flushing = True

        def synced(error: OSError | None) -> None:
            self._is_flushing = False
            if error is not None:
                failure = StorageError(f"cannot sync the log in {self.directory}: {error}")
                failure.__cause__ = error
                done(failure)
                return
            if truncations == self._truncations:
                self.recovery_point = max(self.recovery_point, end_offset)
            done(None)

        self._unflushed_records = 0
        self._disk.sync_later(files, synced)

    def _files_to_sync(self) -> list[File]:
        files: list[File] = []
        for segment in self._segments.starting_with(self.recovery_point):
            files += segment.files_to_sync(with_indexes=segment is not self._segments.active)
        try:
            if self._epochs.is_unsynced:
                self._epochs.is_unsynced = False
                self.has_new_names = True
                files.append(self._disk.open(self._epochs.path, read_only=True))
            if self.has_new_names:
                self.has_new_names = False
                files.append(self._disk.open(self.directory, read_only=True))
        except OSError as error:
            raise StorageError(f"cannot open {self.directory} to sync it: {error}") from error
        return files
