"""The files of one log: segments, epochs and producers' snapshots, written, rolled, truncated and deleted together.

It has no watermarks and no validation: `PartitionLog` has both, and decides.
Every method raises StorageError on an I/O error.

Source: LocalLog of Kafka.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.errors import StorageError
from ottla.log.checkpoint import LEADER_EPOCH_CHECKPOINT
from ottla.log.config import LONG_MAX, LogConfig
from ottla.log.deleted_files import DeletedFiles
from ottla.log.durability import Durability, Sync
from ottla.log.file_names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from ottla.log.log_reader import LogReader
from ottla.log.open_files import OpenFiles
from ottla.log.recovery import LoadedLog
from ottla.log.replay import rebuild_producers, replay_batch
from ottla.log.segment import Segment
from ottla.ports import Disk, File
from ottla.types import Offset
from ottla.wire.records import RecordBatch


class Closing(NamedTuple):
    """A log that is being closed: the caller syncs ``files``, then calls ``end``."""

    files: list[File]
    end: Callable[[], None]


class CleanedFiles(Protocol):
    """The ``.cleaned`` files of one segment, on stable storage."""

    @property
    def base_offset(self) -> Offset: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def has_transactions(self) -> bool: ...


class LocalLog:
    """See the module.

    Attributes:
        directory: where the files are.
        log_end_offset: the offset that the next record gets.
        segments: at least one; the last one is active.
        epochs: the start offset of each leader epoch.
        producers: the state of each producer, as of the log end.
        snapshots: of that state.
        deleted: files that wait for their removal.
        durability: how much is on stable storage.
        reader: finds the bytes for fetches.
    """

    __slots__ = (
        "_disk",
        "_monotonic_ms",
        "_on_sync_error",
        "_open_files",
        "deleted",
        "directory",
        "durability",
        "epochs",
        "log_end_offset",
        "producers",
        "reader",
        "segments",
        "snapshots",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        open_files: OpenFiles,
        loaded: LoadedLog,
        *,
        monotonic_ms: Callable[[], int],
        on_sync_error: Callable[[StorageError], None],
    ) -> None:
        self._disk = disk
        self._monotonic_ms = monotonic_ms
        self._on_sync_error = on_sync_error
        self._open_files = open_files
        self.directory = directory
        self.segments = loaded.segments
        self.epochs = loaded.epochs
        self.producers = loaded.producer_state
        self.snapshots = loaded.snapshots
        self.log_end_offset: Offset = loaded.log_end_offset
        self.deleted = DeletedFiles(disk)
        self.reader = LogReader(loaded.segments)
        self.durability = Durability(
            disk=disk,
            directory=directory,
            segments=loaded.segments,
            epochs=loaded.epochs,
            recovery_point=loaded.recovery_point,
            has_changed_files=loaded.has_changed_files,
            has_unsynced_indexes=loaded.was_recovered,
            is_blank=loaded.is_blank,
            unsynced_snapshots=loaded.unsynced_snapshots,
        )

    def append(self, batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
        """Write one batch that has its offsets and epoch, and count it."""
        size_bytes, max_timestamp_ms, last_offset = batch.size_bytes, batch.max_timestamp_ms, batch.last_offset
        segment = self.segments.active
        if segment.must_roll(config, size_bytes, max_timestamp_ms, last_offset, now_ms):
            self.roll(batch.base_offset, now_ms)
            segment = self.segments.active
        if batch.leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)
        position = segment.write((batch.buffer,), size_bytes)
        self.log_end_offset = last_offset + 1
        segment.index_batch(
            position,
            size_bytes=size_bytes,
            last_offset=last_offset,
            max_timestamp_ms=max_timestamp_ms,
            interval_bytes=config.index_entry_interval_bytes,
        )
        if batch.producer_id >= 0:
            replay_batch(self.producers, batch, segment.transaction_index)
        self._on_appended(batch.record_count, config)

    def append_all(self, batches: list[RecordBatch], data: memoryview, config: LogConfig, now_ms: int) -> None:
        """Write ``batches``, which lie one after the other in ``data``, with one call, and count them."""
        max_timestamp_ms = max(batch.max_timestamp_ms for batch in batches)
        last_offset = batches[-1].last_offset
        segment = self.segments.active
        if segment.must_roll(config, len(data), max_timestamp_ms, last_offset, now_ms):
            self.roll(batches[0].base_offset, now_ms)
            segment = self.segments.active
        for batch in batches:
            if batch.leader_epoch > self.epochs.latest_epoch:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)
        position = segment.write((data,), len(data))
        self.log_end_offset = last_offset + 1
        for batch in batches:
            segment.index_batch(
                position,
                size_bytes=batch.size_bytes,
                last_offset=batch.last_offset,
                max_timestamp_ms=batch.max_timestamp_ms,
                interval_bytes=config.index_entry_interval_bytes,
            )
            position += batch.size_bytes
            replay_batch(self.producers, batch, segment.transaction_index)
        self._on_appended(sum(batch.record_count for batch in batches), config)

    def _on_appended(self, record_count: int, config: LogConfig) -> None:
        self.producers.end_offset = self.log_end_offset
        # Without flush.ms, its default, nothing is due by time, and an append need not read another clock.
        now_ms = self._monotonic_ms() if config.flush_ms < LONG_MAX else 0
        self.durability.on_appended(record_count, self.log_end_offset, config, now_ms)

    def roll(self, base_offset: Offset, now_ms: int) -> None:
        """Start a segment at ``base_offset``, unless the active one is empty and starts there already."""
        old = self.segments.active
        if old.base_offset == base_offset:
            return
        old.become_inactive()
        self.durability.on_sealed(old)
        self.write_snapshot()
        self._start_segment(base_offset, now_ms)
        self.flush_later(_ignore)

    def skip_to(self, offset: Offset, now_ms: int) -> None:
        """Start a segment at ``offset``, above the log end: compaction has left no records in between."""
        self.log_end_offset = self.producers.end_offset = offset
        self.roll(offset, now_ms)

    def write_snapshot(self) -> None:
        """Write a snapshot of the producers' state at the log end; an empty log has none."""
        if self.producers.end_offset > self.segments.first.base_offset and self.snapshots.write(self.producers):
            self.durability.on_snapshot_written(self.producers.end_offset)

    def awaits_snapshot_after(self, segment: Segment) -> bool:
        """Return whether there are producers, and their snapshot at the end of ``segment`` has not been synced yet."""
        following = self.segments.after(segment)
        if following is None or not self.producers.producers:
            return False
        return not self.durability.is_snapshot_synced(following.base_offset)

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
        self.durability.on_files_changed()

    def delete_segment(self, segment: Segment, *, due_ms: int, keeps_snapshot: bool = False) -> None:
        """Take a segment out of the log; its files are removed at ``due_ms`` of the monotonic clock."""
        segment.discard()
        self.segments.remove(segment)
        paths = segment.paths()
        if not keeps_snapshot and self.snapshots.unregister(segment.base_offset):
            paths.append(self.snapshots.path(segment.base_offset))
        for path in paths:
            self.deleted.mark(path, due_ms=due_ms)

    def replace_segments(self, cleaned: CleanedFiles, replaced: list[Segment], *, due_ms: int) -> None:
        """Put the ``.cleaned`` files of one segment in the place of ``replaced``, which end where the next one starts.

        After a crash in between, `interrupted_work` gives either the old segments or the new one: from the renaming of
        the ``.log`` file to ``.swap`` on, the new one. It goes first, and the transaction index goes before the others:
        an index that is missing then makes recovery rebuild all three.

        Source: LocalLog.replaceSegments of Kafka.
        """
        suffixes = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
        if cleaned.has_transactions:
            suffixes.insert(1, TRANSACTION_INDEX_SUFFIX)
        paths = [segment_path(self.directory, cleaned.base_offset, suffix) for suffix in suffixes]
        for path in paths:
            self._rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        for segment in replaced:
            self.delete_segment(segment, due_ms=due_ms, keeps_snapshot=segment.base_offset == cleaned.base_offset)
        for path in paths:
            self._rename(path + SWAP_SUFFIX, path)
        self.segments.add(
            Segment(
                disk=self._disk,
                open_files=self._open_files,
                directory=self.directory,
                base_offset=cleaned.base_offset,
                size_bytes=cleaned.size_bytes,
                created_ms=replaced[-1].created_ms,
                has_transactions=cleaned.has_transactions,
            )
        )
        self.durability.on_files_changed()

    def _rename(self, source: str, target: str) -> None:
        try:
            self._disk.rename(source, target)
        except OSError as error:
            raise StorageError(f"cannot rename {source} to {target}: {error}") from error

    def truncate_to(self, offset: Offset, *, now_ms: int, due_ms: int) -> None:
        """Remove the records from ``offset`` on, which is at or above the first segment's."""
        for segment in reversed(list(self.segments)):
            if segment.base_offset > offset:
                self.delete_segment(segment, due_ms=due_ms)
        end_offset = min(offset, self.segments.active.truncate_to(offset))
        self.snapshots.remove_above(end_offset)
        self._on_truncated(end_offset)
        rebuild_producers(
            self.producers,
            self.snapshots,
            self.segments,
            end_offset=end_offset,
            now_ms=now_ms,
        )

    def truncate_fully(self, offset: Offset, *, now_ms: int, due_ms: int) -> None:
        """Remove everything; the one segment that is left starts at ``offset``."""
        # The newest first: a crash in between then leaves a log that ends early, not one with a hole.
        for segment in reversed(list(self.segments)):
            self.delete_segment(segment, due_ms=due_ms)
        self._start_segment(offset, now_ms)
        self.snapshots.remove_above(-1)
        self.epochs.clear()
        self.producers.clear(offset)
        self._on_truncated(offset)

    def _on_truncated(self, end_offset: Offset) -> None:
        self.log_end_offset = end_offset
        self.epochs.truncate_from_end(end_offset)
        self.durability.on_truncated(end_offset)
        self.reader.on_truncated()

    def flush(self) -> None:
        self.durability.flush(self.log_end_offset)

    def flush_later(self, done: Callable[[StorageError | None], None]) -> None:
        """Sync everything off the loop; a failure is reported to the owner first, then to ``done``."""

        def synced(error: StorageError | None) -> None:
            if error is not None:
                self._on_sync_error(error)
            done(error)

        self.durability.flush_later(self.log_end_offset, synced)

    def close(self) -> None:
        """Put everything on stable storage, then close every file."""
        sync = self._seal()
        sync.perform()
        self._end_close(sync)

    def begin_close(self) -> Closing:
        """Write everything; the caller does the rest of `close`, and may sync many logs at once."""
        sync = self._seal()
        return Closing(sync.files, lambda: self._end_close(sync))

    def _seal(self) -> Sync:
        """Write the state that is only in memory; return the sync that must follow."""
        self.write_snapshot()
        if self.durability.has_unsynced_indexes:
            self.segments.active.become_inactive()
            self.durability.on_sealed(self.segments.active)
        return self.durability.begin_flush(self.log_end_offset)

    def _end_close(self, sync: Sync) -> None:
        self.durability.end_flush(sync, self.log_end_offset)
        for segment in self.segments:
            segment.close()

    def release(self) -> None:
        """Close every file without writing anything."""
        for segment in self.segments:
            segment.discard()

    def report_sync_errors_to(self, on_sync_error: Callable[[StorageError], None]) -> None:
        """Report failures of syncs, also of those under way, to another owner of these files."""
        self._on_sync_error = on_sync_error

    def rename_directory(self, directory: str) -> None:
        """Move everything to ``directory``, on the same file system."""
        for segment in self.segments:
            segment.close()
        self._rename(self.directory, directory)
        for segment in self.segments:
            segment.move_to(directory)
        self.epochs.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self.snapshots.directory = directory
        self.deleted.move_to(self.directory, directory)
        self.durability.directory = directory
        self.directory = directory


def _ignore(_: StorageError | None) -> None:
    """Ignore the result of a background sync: a failure has been reported to the owner."""
