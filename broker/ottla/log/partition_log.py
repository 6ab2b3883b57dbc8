"""The log of one partition: an ordered, append-only sequence of record batches, kept in segments on disk.

This module has reads, watermarks, truncation and retention; `append` has the appends, `log_state` the attributes, and
`local_log` the files. `recovery` opens a log, `validation` rejects batches, `retention` selects the segments to delete,
`offset_lookup` finds offsets by time. Nothing is thread-safe.

An I/O error ends the log: the first StorageError is reported to the owner, who takes the whole log directory offline,
and every later change raises it again. A write that failed half-way is never retried.

Source: UnifiedLog and LocalLog of Apache Kafka 4.3.
"""

from collections.abc import Callable

from ottla.errors import OffsetOutOfRangeError, StorageError
from ottla.log.append import AppendableLog, AppendOrigin, AppendResult
from ottla.log.batch_check import CheckedBatch
from ottla.log.checkpoint import read_partition_metadata
from ottla.log.config import LogConfig
from ottla.log.local_log import CleanedFiles, Closing
from ottla.log.log_reader import LogSlice
from ottla.log.offset_lookup import OffsetLookup, TimestampAndOffset
from ottla.log.open_files import OpenFiles
from ottla.log.recovery import LogLoader
from ottla.log.retention import deletable_segments
from ottla.log.segment import Segment
from ottla.log.transaction_index import AbortedTransaction
from ottla.log.validation import RecordError, RecordValidationError
from ottla.ports import Clock, Disk
from ottla.purgatory.off_loop import OffLoop
from ottla.purgatory.steps import Steps
from ottla.types import LeaderEpoch, Offset, OffsetAndEpoch, TopicPartition, Uuid

__all__ = [
    "AbortedTransaction",
    "AppendOrigin",
    "AppendResult",
    "CheckedBatch",
    "LogSlice",
    "PartitionLog",
    "RecordError",
    "RecordValidationError",
    "TimestampAndOffset",
]


class PartitionLog(AppendableLog):
    """See the module. Its attributes are those of `LogState`."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        *,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: Uuid | None = None,
        config: LogConfig,
        clock: Clock,
        recovery_point: Offset = 0,
        log_start_offset: Offset = 0,
        was_clean_shutdown: bool = False,
        producer_id_expiration_ms: int = 86_400_000,
        may_have_gaps: bool = False,
        open_files: OpenFiles | None = None,
        on_storage_error: Callable[[StorageError], None] | None = None,
        on_truncated: Callable[["PartitionLog"], None] | None = None,
    ) -> "PartitionLog":
        """Open the log in ``directory``, create it when it is missing, and recover it unless it was closed cleanly.

        ``on_storage_error`` is called once, with the error that ends the log; ``on_truncated`` whenever the log end has
        gone back, for the owner to write the recovery point, which may have too. ``may_have_gaps``: the log was
        compacted before, whatever ``config`` says now.

        Raises:
            StorageError: an I/O error. A corrupt tail is not an error: it is truncated.
        """
        if open_files is None:
            open_files = OpenFiles()
        loaded = LogLoader(
            disk=disk,
            open_files=open_files,
            directory=directory,
            topic_partition=topic_partition,
            config=config,
            wall_ms=clock.wall_ms(),
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean_shutdown=was_clean_shutdown,
            producer_id_expiration_ms=producer_id_expiration_ms,
            may_have_gaps=may_have_gaps,
        ).load()
        log = cls(
            disk=disk,
            directory=directory,
            topic_partition=topic_partition,
            config=config,
            clock=clock,
            open_files=open_files,
            loaded=loaded,
            on_storage_error=on_storage_error,
            on_truncated=on_truncated,
        )
        log.may_have_gaps = may_have_gaps or config.is_compacted
        log.topic_id = read_partition_metadata(disk, directory)
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return log

    # --- reading

    def read(
        self,
        start_offset: Offset,
        *,
        size_bytes_max: int,
        upper_bound_offset: Offset | None = None,
        at_least_one: bool = True,
        with_aborted_transactions: bool = False,
    ) -> LogSlice:
        """Return the file slice of the records from ``start_offset``, which may lie within a batch.

        Args:
            start_offset: log_start_offset <= start_offset <= log_end_offset.
            size_bytes_max: the slice ends here, mid-batch if need be: clients drop the partial batch at the end.
            upper_bound_offset: batches from here on are left out; the log end offset when None. High watermark for
                consumers, last stable offset for read_committed ones.
            at_least_one: make the slice as large as its first batch even if ``size_bytes_max`` is smaller.
            with_aborted_transactions: also find them in the transaction index.

        Raises:
            OffsetOutOfRangeError: ``start_offset`` is outside the log.
            StorageError: an I/O error.
        """
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"Received request for offset {start_offset} for partition {self.topic_partition}, but we only have "
                f"log segments in the range {self.log_start_offset} to {self.log_end_offset}."
            )
        try:
            return self._local.reader.read(
                start_offset,
                size_bytes_max=size_bytes_max,
                upper_bound_offset=self.log_end_offset if upper_bound_offset is None else upper_bound_offset,
                log_end_offset=self.log_end_offset,
                at_least_one=at_least_one,
                with_aborted_transactions=with_aborted_transactions,
            )
        except StorageError as error:
            self._fail(error)

    # --- offsets by time and by epoch

    def offset_for_timestamp(self, timestamp_ms: int, off_loop: OffLoop) -> Steps[TimestampAndOffset | None]:
        """Return the first record stamped ``timestamp_ms`` or later, or None. The caller bounds it by HW or LSO."""
        lookup = OffsetLookup(self._local.segments, lambda: self.log_start_offset, off_loop)
        return self._guarded_steps(lookup.find_timestamp(timestamp_ms))

    def offset_of_max_timestamp(self, off_loop: OffLoop) -> Steps[TimestampAndOffset | None]:
        """Return the first record with the newest timestamp (KIP-734), or None when the log is empty."""
        lookup = OffsetLookup(self._local.segments, lambda: self.log_start_offset, off_loop)
        return self._guarded_steps(lookup.find_max_timestamp())

    def offset_for_leader_epoch(self, leader_epoch: LeaderEpoch) -> OffsetAndEpoch | None:
        """Return the largest epoch <= ``leader_epoch`` that the log knows, and where it ends (KIP-101, KIP-279).

        None means UNDEFINED_EPOCH: the log knows no epoch, or ``leader_epoch`` is -1 or newer than all known ones.
        """
        return self._local.epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch under which ``offset`` was or would be written; -1 when unknown."""
        return self._local.epochs.epoch_for_offset(offset)

    def assign_epoch_start_offset(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Record that ``leader_epoch`` starts at ``start_offset``; a new leader does so before it appends."""
        self._guarded(lambda: self._local.epochs.assign(leader_epoch, start_offset))

    # --- watermarks

    def update_high_watermark(self, offset: Offset) -> Offset:
        """Set the high watermark, bounded by log start and log end; return the new value. It may decrease."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self._local.producers.on_high_watermark(self.high_watermark)
        return self.high_watermark

    def delete_records_before(self, offset: Offset) -> None:
        """Raise the log start offset (DeleteRecords); the next retention check deletes the segments below it.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark. At or below the log start it does nothing.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it is "
                f"larger than the high watermark {self.high_watermark}"
            )
        self.raise_log_start(offset)

    def raise_log_start(self, offset: Offset) -> None:
        """Raise the log start to ``offset`` if that is higher; a follower does so with its leader's log start."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.high_watermark = max(self.high_watermark, offset)
            self._local.producers.on_high_watermark(self.high_watermark)
            self._guarded(lambda: self._local.epochs.truncate_from_start(offset))

    # --- roll, retention, compaction, truncation

    def roll(self, now_ms: int) -> None:
        """Close the active segment, even a small one, and start another; nothing when the active one is empty."""
        self._guarded(lambda: self._local.roll(self.log_end_offset, now_ms))

    def _deletion_due_ms(self) -> int:
        return self._clock.monotonic_ms() + self.config.file_delete_delay_ms

    def apply_retention(self, now_ms: int) -> list[Offset]:
        """Delete the segments that the configuration no longer keeps; return their base offsets."""
        return self._guarded(lambda: self._apply_retention(now_ms))

    def _apply_retention(self, now_ms: int) -> list[Offset]:
        deletable = deletable_segments(
            self._local.segments,
            self.config,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=self.high_watermark,
            now_ms=now_ms,
        )
        if deletable and deletable[-1] is self._local.segments.active:
            self._local.roll(self.log_end_offset, now_ms)
        # The producers' snapshot at the end of the last one is the only copy of their state then: a later check deletes
        # the segments whose snapshot has not been synced yet.
        while deletable and self._local.awaits_snapshot_after(deletable[-1]):
            deletable.pop()
        for segment in deletable:
            self._local.delete_segment(segment, due_ms=self._deletion_due_ms())
        self.raise_log_start(self._local.segments.first.base_offset)
        return [segment.base_offset for segment in deletable]

    def replace_segments(self, cleaned: CleanedFiles, replaced: list[Segment]) -> None:
        """Put a cleaned segment, whose files are in the log's directory, in the place of neighbouring segments."""
        self._guarded(lambda: self._local.replace_segments(cleaned, replaced, due_ms=self._deletion_due_ms()))

    def skip_to(self, offset: Offset) -> None:
        """Raise the log end of a copy to ``offset``: compaction has left no records in between."""
        if self.awaited_checkpoint is not None:
            self._write_awaited_checkpoint(self.awaited_checkpoint)
        self._guarded(lambda: self._local.skip_to(offset, self._clock.wall_ms()))

    def copy_epochs_of(self, original: "PartitionLog") -> bool:
        """Use the leader epochs of the log that this one is a complete copy of; return whether they differed.

        Those in the copied batches are not enough: compaction may have removed the first batches of an epoch.
        """
        return self._guarded(lambda: self._local.epochs.replace_entries(original._local.epochs.entries))

    def exchange_files(self, copy: "PartitionLog") -> None:
        """Continue with the files of ``copy``, which ends where this log does; it gets the files of this log.

        The state of the producers stays: it has verifications, and producers whose records were deleted.
        """
        mine, theirs = self._local, copy._local
        assert mine.log_end_offset == theirs.log_end_offset, "the copy is not complete"
        mine.producers, theirs.producers = theirs.producers, mine.producers
        theirs.durability.replace(mine.durability)
        mine.report_sync_errors_to(copy._note_failure)
        theirs.report_sync_errors_to(self._note_failure)
        self._local, copy._local = theirs, mine
        self._on_storage_error, copy._on_storage_error = copy._on_storage_error, self._on_storage_error
        self._on_truncated, copy._on_truncated = copy._on_truncated, self._on_truncated
        self.awaited_checkpoint, copy.awaited_checkpoint = copy.awaited_checkpoint, self.awaited_checkpoint

    def truncate_to(self, offset: Offset) -> bool:
        """Remove records from ``offset`` on; return whether there were any.

        A batch that straddles ``offset`` is removed as a whole, and so are epochs that start there without a record.
        """
        if offset >= self.log_end_offset:
            self._guarded(lambda: self._local.epochs.truncate_from_end(self.log_end_offset))
            return False
        if offset < self._local.segments.first.base_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            self._guarded(lambda: self._truncate_to(offset))
        return True

    def _truncate_to(self, offset: Offset) -> None:
        self._local.truncate_to(offset, now_ms=self._clock.wall_ms(), due_ms=self._deletion_due_ms())
        self._after_truncation(min(self.log_start_offset, self.log_end_offset))

    def truncate_fully_and_start_at(self, offset: Offset, log_start_offset: Offset | None = None) -> None:
        """Remove everything and make ``offset`` the next one, and the log start unless that is given."""
        self._guarded(lambda: self._truncate_fully(offset, offset if log_start_offset is None else log_start_offset))

    def _truncate_fully(self, offset: Offset, log_start_offset: Offset) -> None:
        self._local.truncate_fully(offset, now_ms=self._clock.wall_ms(), due_ms=self._deletion_due_ms())
        self._after_truncation(log_start_offset)

    def _after_truncation(self, log_start_offset: Offset) -> None:
        self.log_start_offset = log_start_offset
        self.first_dirty_offset = min(self.first_dirty_offset, self.log_end_offset)
        self.truncation_count += 1
        self.update_high_watermark(self.high_watermark)
        if self._on_truncated is not None:
            self._on_truncated(self)

    # --- durability, periodic work, closing

    def flush(self) -> None:
        """Put everything appended so far on stable storage before returning."""
        self._guarded(self._local.flush)

    def flush_later(self, done: Callable[[StorageError | None], None]) -> None:
        """Put everything appended so far on stable storage; call ``done`` when ``recovery_point`` says so."""
        self._guarded(lambda: self._local.flush_later(done))

    def tick(self, now_ms: int) -> None:
        """Do the work that is due by the monotonic clock; producers expire by the wall clock, like their timestamps."""
        self.remove_deleted_files(now_ms)
        self.flush_when_due(now_ms)
        self.expire_producers(self._clock.wall_ms())

    @property
    def has_deleted_files(self) -> bool:
        """Whether deleted files of the log are still on disk."""
        return bool(self._local.deleted)

    def remove_deleted_files(self, now_ms: int) -> None:
        """Remove the files that were deleted file.delete.delay.ms ago; ``now_ms`` is monotonic."""
        self._guarded(lambda: self._local.deleted.remove_due(now_ms))

    def flush_when_due(self, now_ms: int) -> None:
        """Start a sync when the oldest unflushed record was appended flush.ms ago; ``now_ms`` is monotonic."""
        if self._local.durability.is_flush_due(self.config, now_ms):
            self.flush_later(lambda _: None)

    def expire_producers(self, now_ms: int, expiration_ms: int | None = None) -> None:
        """Remove the producers idle for producer.id.expiration.ms by the wall clock; ``expiration_ms`` replaces it."""
        self._local.producers.expire(now_ms, expiration_ms)

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        self.may_have_gaps = self.may_have_gaps or config.is_compacted

    def close(self) -> None:
        """Flush, snapshot the producers, and close every file, as a clean shutdown needs it."""
        self._guarded(self._local.close)

    def begin_close(self) -> Closing:
        """Do the part of `close` before its syncs; the caller syncs and ends it."""
        return self._guarded(self._local.begin_close)

    def release(self) -> None:
        """Close every file without writing anything: for a log whose directory has failed or is being deleted."""
        self._local.release()

    def rename_directory(self, directory: str) -> None:
        """Move the log to ``directory`` (on the same disk); `LogManager` marks deleted logs this way (``-delete``)."""
        self._guarded(lambda: self._local.rename_directory(directory))
