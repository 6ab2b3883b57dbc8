"""Open a log after a clean stop or a crash: load its segments, offsets, epochs and producers from disk.

After a clean stop the files are complete, and opening costs a few small reads per log. Otherwise everything from the
recovery point on is suspect. The segments from the one with the recovery point on are walked batch by batch with their
CRC checked; the first torn or corrupt batch ends the log: the rest of its segment and all later segments are removed.
The same applies to the first batch that overlaps with the next segment: that segment was created after a truncation,
which the power cut has undone. Meanwhile the indexes, the leader epochs and the producers' state are rebuilt. Epochs
below are compared with the batches (`epoch_check`). Segments below the recovery point were synced with their indexes
when it was written and are trusted. Of their indexes, which hold nothing that the log does not, the ends are checked;
missing and invalid ones are rebuilt. JVM Kafka checks less: whether there is an offset index, and the content of the
transaction index.

`interrupted_work` repairs the files first.

Source: LogLoader and LogSegment.recover of Kafka.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, zip_longest

from ottla.errors import CorruptRecordError, StorageError
from ottla.log.checkpoint import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    MalformedFileError,
)
from ottla.log.config import LogConfig
from ottla.log.deleted_files import remove_file
from ottla.log.epoch_check import WalkedEpochs, check_epochs
from ottla.log.file_names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_base_offset,
)
from ottla.log.interrupted_work import finish_interrupted_work
from ottla.log.leader_epoch_cache import LeaderEpochCache
from ottla.log.offset_index import RELATIVE_OFFSET_MAX
from ottla.log.open_files import OpenFiles
from ottla.log.producer_snapshots import ProducerSnapshots
from ottla.log.producer_state import ProducerState
from ottla.log.replay import rebuild_producers, replay_batch
from ottla.log.segment import Segment
from ottla.log.segments import Segments
from ottla.ports import Disk
from ottla.types import LeaderEpoch, Offset, TopicPartition
from ottla.wire.records import NO_LEADER_EPOCH, RecordBatch

logger = logging.getLogger(__name__)

_SEGMENT_FILES = frozenset(f"{0:020d}{suffix}" for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX))
_BLANK_FILES = _SEGMENT_FILES | {PARTITION_METADATA}
"""The files of a log to which nothing was ever written."""


class CorruptLogError(StorageError):
    """Files below the recovery point are corrupt: this log cannot be used, its directory can."""


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    """The log as loaded from its directory.

    ``truncated_bytes`` counts the bytes that recovery truncated, 0 after a clean stop; ``has_changed_files`` is whether
    files were created that the directory may lose; ``was_recovered`` whether indexes were rebuilt; ``is_blank`` whether
    nothing was ever written, so that a lost log would be created again with the same contents; ``unsynced_snapshots``
    are the offsets of the producers' snapshots that recovery wrote.
    """

    segments: Segments
    epochs: LeaderEpochCache
    producer_state: ProducerState
    snapshots: ProducerSnapshots
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    truncated_bytes: int
    has_changed_files: bool
    was_recovered: bool
    is_blank: bool
    unsynced_snapshots: tuple[Offset, ...]


class LogLoader:
    """Opens one log; used once. `load` raises StorageError on an I/O error."""

    def __init__(
        self,
        *,
        disk: Disk,
        open_files: OpenFiles,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        wall_ms: int,
        recovery_point: Offset,
        log_start_offset: Offset,
        was_clean_shutdown: bool,
        producer_id_expiration_ms: int,
        may_have_gaps: bool,
    ) -> None:
        self._disk = disk
        self._open_files = open_files
        self._directory = directory
        self._config = config
        # An entry is added with the first batch after an interval: more bytes than these have at least one.
        self._unindexed_bytes_max = 2 * (config.index_interval_bytes + config.max_message_bytes)
        self._wall_ms = wall_ms
        self._recovery_point = recovery_point
        self._log_start_offset = log_start_offset
        self._was_clean_shutdown = was_clean_shutdown
        # A node reads its logs before it knows the topics' configuration.
        self._may_have_gaps = may_have_gaps or config.is_compacted
        self._epochs = LeaderEpochCache(disk, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
        self._state = ProducerState(topic_partition, producer_id_expiration_ms)
        self._snapshots = ProducerSnapshots(disk, directory)
        self._segments = Segments(())
        self._truncated_bytes = 0
        self._has_changed_files = False
        self._was_recovered = False
        self._unsynced_snapshots: list[Offset] = []

    def load(self) -> LoadedLog:
        """Open the log; create an empty one if there is none."""
        try:
            self._disk.make_directory(self._directory)
            names = set(self._disk.list_directory(self._directory))
            names = finish_interrupted_work(self._disk, self._directory, names, self._segment)
        except OSError as error:
            raise StorageError(f"cannot open the log in {self._directory}: {error}") from error
        except CorruptRecordError as error:
            raise CorruptLogError(f"the compacted segment is corrupt: {error}") from error
        self._find_segments(names)
        epochs_are_valid = self._load_epochs(names)
        is_new, is_blank = not self._segments, self._is_blank(names)
        if is_new:
            self._segments.add(self._new_segment(self._log_start_offset))
        if is_new or is_blank:
            end_offset = self._log_start_offset
            self._state.clear(end_offset)
        else:
            try:
                end_offset = self._load_end(names)
            except CorruptRecordError as error:
                raise CorruptLogError(f"the log is corrupt below its recovery point: {error}") from error
        end_offset = self._match_log_start(end_offset)
        if not epochs_are_valid:
            self._epochs.rewrite()
        self._epochs.truncate_from_end(end_offset)
        self._epochs.truncate_from_start(self._log_start_offset)
        self._snapshots.remove_above(end_offset)
        for segment in self._segments:
            # A node with thousands of logs must not start with as many open descriptors.
            segment.close()
        return LoadedLog(
            segments=self._segments,
            epochs=self._epochs,
            producer_state=self._state,
            snapshots=self._snapshots,
            log_start_offset=self._log_start_offset,
            log_end_offset=end_offset,
            recovery_point=min(self._recovery_point, end_offset),
            truncated_bytes=self._truncated_bytes,
            has_changed_files=self._has_changed_files,
            was_recovered=self._was_recovered,
            is_blank=is_blank,
            unsynced_snapshots=tuple(self._unsynced_snapshots),
        )

    # --- files

    def _find_segments(self, names: set[str]) -> None:
        segments = []
        try:
            for name in names:
                base_offset = parse_base_offset(name, LOG_SUFFIX)
                if base_offset is not None:
                    size_bytes = self._disk.size_bytes(f"{self._directory}/{name}")
                    has_transactions = f"{base_offset:020d}{TRANSACTION_INDEX_SUFFIX}" in names
                    segments.append(self._segment(base_offset, size_bytes, has_transactions=has_transactions))
            self._segments = Segments(segments)
            self._remove_orphaned_indexes(names, {segment.base_offset for segment in segments})
        except OSError as error:
            raise StorageError(f"cannot look into {self._directory}: {error}") from error
        snapshots = (parse_base_offset(name, SNAPSHOT_SUFFIX) for name in names)
        self._snapshots = ProducerSnapshots(
            self._disk, self._directory, (offset for offset in snapshots if offset is not None)
        )
        self._snapshots.remove_strays(segment.base_offset for segment in self._segments)

    def _is_blank(self, names: set[str]) -> bool:
        """Whether no record was ever appended: an append creates the file of epochs, which a truncation keeps."""
        if self._log_start_offset > 0 or not names <= _BLANK_FILES:
            return False
        if not self._segments or not names >= _SEGMENT_FILES:
            return not self._segments
        try:
            sizes = [self._disk.size_bytes(f"{self._directory}/{name}") for name in sorted(_SEGMENT_FILES)]
        except OSError as error:
            raise StorageError(f"cannot look into {self._directory}: {error}") from error
        return not any(sizes)

    def _remove_orphaned_indexes(self, names: Iterable[str], base_offsets: set[Offset]) -> None:
        for name in sorted(names):
            for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                offset = parse_base_offset(name, suffix)
                if offset is not None and offset not in base_offsets:
                    self._disk.remove(f"{self._directory}/{name}")

    def _load_epochs(self, names: set[str]) -> bool:
        """Read the epochs; return False when the file is corrupt, which is only valid after a crash."""
        try:
            self._epochs.load(is_synced=self._was_clean_shutdown)
        except MalformedFileError:
            if self._was_clean_shutdown:
                raise
            return False
        if self._was_clean_shutdown or self._epochs.entries or LEADER_EPOCH_CHECKPOINT not in names:
            return True
        # An empty file is valid for a log without records; with records, a power cut has emptied it.
        return not self._segments.size_bytes

    def _segment(self, base_offset: Offset, size_bytes: int, *, has_transactions: bool = False) -> Segment:
        return Segment(
            disk=self._disk,
            open_files=self._open_files,
            directory=self._directory,
            base_offset=base_offset,
            size_bytes=size_bytes,
            created_ms=self._wall_ms,
            has_transactions=has_transactions,
        )

    def _new_segment(self, base_offset: Offset) -> Segment:
        segment = self._segment(base_offset, 0)
        segment.create()
        self._has_changed_files = True
        return segment

    # --- the log end

    def _load_end(self, names: set[str]) -> Offset:
        """Recover the suspect segments; return the log end offset."""
        suspects = [] if self._was_clean_shutdown else self._unsynced_segments()
        suspects += self._repair_indexes(names, trusted_count=len(self._segments) - len(suspects))
        if not suspects:
            try:
                end_offset = self._segments.active.read_next_offset(unindexed_bytes_max=self._unindexed_bytes_max)
            except CorruptRecordError:
                # The clean-shutdown marker is wrong: another program has changed the file.
                suspects.append(self._segments.active)
            else:
                self._load_producers(end_offset)
                return end_offset
        return self._recover_from(min(segment.base_offset for segment in suspects))

    def _unsynced_segments(self) -> list[Segment]:
        """Return the segments from the recovery point on, with the previous one if its truncation was lost.

        A truncation moves the recovery point back to the new log end. The segment that is rolled there starts at the
        recovery point, and the truncated one is below it without having been synced.
        """
        suspects = self._segments.starting_with(self._recovery_point)
        first_offset = suspects[0].base_offset
        before = self._segments.floor(first_offset - 1)
        if before is None:
            return suspects
        try:
            end_offset = before.read_next_offset(unindexed_bytes_max=self._unindexed_bytes_max)
        except CorruptRecordError:
            return suspects  # no lost truncation: `_repair_indexes` decides
        return [before, *suspects] if end_offset > first_offset else suspects

    def _repair_indexes(self, names: set[str], *, trusted_count: int) -> list[Segment]:
        """Rebuild the invalid indexes of the first segments; return the segments that must be recovered instead.

        These are the active one, and those whose batches cannot be walked.
        """
        hopeless = []
        ends = [segment.base_offset for segment in self._segments][1:]
        for segment, end_offset in islice(zip_longest(self._segments, ends), trusted_count):
            try:
                if self._has_valid_indexes(segment, end_offset, names):
                    continue
                if end_offset is None:
                    hopeless.append(segment)
                    continue
                logger.warning("%s: an index is missing or corrupt; rebuilding its indexes", segment.path)
                self._rebuild_indexes(segment, end_offset)
            except CorruptRecordError:
                hopeless.append(segment)
        return hopeless

    def _has_valid_indexes(self, segment: Segment, end_offset: Offset | None, names: set[str]) -> bool:
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if f"{segment.base_offset:020d}{suffix}" not in names:
                return False
        if end_offset is None:
            return True  # those of the active segment are checked when its next offset is read
        return segment.has_valid_indexes(end_offset, unindexed_bytes_max=self._unindexed_bytes_max)

    def _rebuild_indexes(self, segment: Segment, end_offset: Offset) -> None:
        """Walk a trusted segment, which ends at the start of the next one, and rebuild its indexes."""
        self._was_recovered = True
        if self._state.end_offset != segment.base_offset:  # the previous segment was not walked just before
            self._load_producers(segment.base_offset)
        segment.reset_indexes()
        next_offset = segment.base_offset
        for position, batch in segment.walk_batches():
            _require_offsets(segment, batch, next_offset)
            next_offset = batch.next_offset
            replay_batch(self._state, batch, segment.transaction_index)
            self._index(segment, position, batch)
        segment.become_inactive()
        self._state.end_offset = end_offset

    def _index(self, segment: Segment, position: int, batch: RecordBatch) -> None:
        segment.index_batch(
            position,
            size_bytes=batch.size_bytes,
            last_offset=batch.last_offset,
            max_timestamp_ms=batch.max_timestamp_ms,
            interval_bytes=self._config.index_entry_interval_bytes,
        )

    def _load_producers(self, end_offset: Offset) -> None:
        rebuild_producers(
            self._state,
            self._snapshots,
            self._segments,
            end_offset=end_offset,
            now_ms=self._wall_ms,
        )

    def _recover_from(self, first_offset: Offset) -> Offset:
        """Recover the segments from ``first_offset`` on; return the log end offset."""
        self._was_recovered = True
        self._snapshots.remove_above(first_offset)
        self._load_producers(first_offset)
        epochs = WalkedEpochs(first_offset)
        end_offset = first_offset
        is_torn = False
        for segment in self._segments.starting_with(first_offset):
            is_torn = is_torn or self._is_gap(end_offset, segment)
            if is_torn:
                self._truncated_bytes += segment.size_bytes
                self._remove(segment)
                continue
            self._state.end_offset = segment.base_offset
            if segment is not self._segments.first and self._snapshots.write(self._state):
                self._unsynced_snapshots.append(segment.base_offset)
            end_offset, is_torn = self._recover(segment, epochs)
        self._state.end_offset = end_offset
        # The file may be older than the log, or torn; the batches are authoritative.
        check_epochs(
            self._epochs,
            self._segments,
            log_start_offset=self._log_start_offset,
            end_offset=first_offset,
            epochs_from_end=epochs.found,
        )
        self._epochs.restore(first_offset, epochs.found)
        return end_offset

    def _is_gap(self, end_offset: Offset, segment: Segment) -> bool:
        """Whether the previous segment has lost its end to a power cut, exactly between two batches.

        A segment starts at the end of the previous one, unless compaction has removed that one's last records; and
        records below the recovery point cannot be lost.
        """
        is_suspect = end_offset >= self._recovery_point and not self._may_have_gaps
        return is_suspect and segment.base_offset > end_offset

    def _recover(self, segment: Segment, epochs: WalkedEpochs) -> tuple[Offset, bool]:
        """Walk one segment, truncate it at the first bad batch; return its end offset and whether it was truncated."""
        segment.reset_indexes()
        following = self._segments.after(segment)
        is_torn = False
        valid_bytes = 0
        next_offset = segment.base_offset
        try:
            for position, batch in segment.walk_batches():
                batch.check_crc()
                self._require_next(segment, batch, next_offset, epochs.latest)
                if following is not None and batch.last_offset >= following.base_offset:
                    raise CorruptRecordError(f"{segment.path}: offset {batch.last_offset} is in the next segment too")
                replay_batch(self._state, batch, segment.transaction_index)
                epochs.add(batch)
                valid_bytes = position + batch.size_bytes
                next_offset = batch.next_offset
                self._index(segment, position, batch)
        except CorruptRecordError:
            is_torn = True
            self._truncated_bytes += segment.size_bytes - valid_bytes
            segment.truncate_bytes(valid_bytes)
        segment.become_inactive()
        return next_offset, is_torn

    def _require_next(self, segment: Segment, batch: RecordBatch, next_offset: Offset, epoch: LeaderEpoch) -> None:
        """Reject a batch that cannot be the next one: its CRC does not cover its offset and its leader epoch.

        Raises:
            CorruptRecordError: as `_require_offsets`, or it leaves a gap without compaction, or its epoch is
                below ``epoch`` or negative. Only old releases of Kafka wrote batches without an epoch, which is -1.
        """
        _require_offsets(segment, batch, next_offset)
        offset = batch.base_offset
        if offset > next_offset >= self._recovery_point and not self._may_have_gaps:
            raise CorruptRecordError(f"{segment.path}: offset {offset} after {next_offset - 1}")
        if batch.leader_epoch < epoch and batch.leader_epoch != NO_LEADER_EPOCH:
            raise CorruptRecordError(f"{segment.path}: leader epoch {batch.leader_epoch} after {epoch} at {offset}")

    def _match_log_start(self, end_offset: Offset) -> Offset:
        """Move the log start into the log if necessary; return the log end offset."""
        if end_offset >= self._log_start_offset:
            self._log_start_offset = max(self._log_start_offset, self._segments.first.base_offset)
            return end_offset
        # The remaining records are below the log start: they were deleted already and must not become readable again.
        for segment in self._segments:
            self._remove(segment)
        self._segments.add(self._new_segment(self._log_start_offset))
        self._epochs.clear()
        self._state.clear(self._log_start_offset)
        return self._log_start_offset

    def _remove(self, segment: Segment) -> None:
        segment.discard()
        self._segments.remove(segment)
        for path in segment.paths():
            remove_file(self._disk, path)
        self._snapshots.remove(segment.base_offset)


def _require_offsets(segment: Segment, batch: RecordBatch, next_offset: Offset) -> None:
    """Reject a batch with offsets that no index can represent.

    Raises:
        CorruptRecordError: an offset decreases, or is too far from the base offset.
    """
    is_too_far = batch.last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
    if batch.base_offset < next_offset or batch.last_offset_delta < 0 or is_too_far:
        raise CorruptRecordError(f"{segment.path}: offset {batch.base_offset} after {next_offset - 1}")
