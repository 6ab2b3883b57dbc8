"""One of the node's log directories: its lock, its clean-shutdown marker, its checkpoints.

Besides the logs, a directory holds ``.lock``, ``meta.properties``, ``.kafka_cleanshutdown`` (JSON: ``version`` 0 and
the ``brokerEpoch`` of the node that closed it) and the checkpoints of `checkpoint`. The marker is removed, durably,
when the directory is opened, so that only the next clean shutdown can vouch for the logs.

Source: LogManager and CleanShutdownFileHandler of Kafka; KIP-966 (broker epoch).
"""

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from ottla.errors import ConfigurationError, KafkaError, ShortageError, StorageError
from ottla.log.checkpoint import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedFileError,
    format_offsets,
    read_offsets,
    read_text,
    write_text,
    write_text_later,
)
from ottla.log.file_names import directory_mark, parse_future_directory, parse_log_directory
from ottla.log.partition_log import PartitionLog
from ottla.ports import Disk, DiskSpace
from ottla.types import CLUSTER_METADATA_TOPIC, Offset, TopicPartition, Uuid

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
UNKNOWN_BROKER_EPOCH = -1
LOGS_CLOSED_AT_ONCE = 64
"""Each needs up to six descriptors while it is synced."""


class LogDirectory:
    """See the module.

    Attributes:
        path: as configured.
        directory_id: from meta.properties; None before it is read.
        logs: its online logs, by partition.
        futures: unfinished copies of logs that are being moved here, by partition.
        was_clean_shutdown: whether the marker was there when the directory was opened.
        previous_broker_epoch: in that marker; -1 without one.
        failure: why the directory is offline; None while it works.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.directory_id: Uuid | None = None
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        self.was_clean_shutdown = False
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        self.failure: StorageError | None = None
        self.recovery_points: dict[TopicPartition, Offset] = {}
        self.log_start_offsets: dict[TopicPartition, Offset] = {}
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        self.first_dirty_offsets: dict[TopicPartition, Offset] = {}
        self._written: dict[str, dict[TopicPartition, Offset]] = {}
        self._being_written: dict[str, dict[TopicPartition, Offset]] = {}
        self._stale: set[str] = set()
        """The checkpoints that must be written again once the write under way has ended."""

    def __repr__(self) -> str:
        state = "offline" if self.failure else "online"
        return f"LogDirectory({self.path!r}, {state}, {len(self.logs)} logs)"

    def lock(self) -> None:
        """Create the directory when it is missing, and lock it against other processes.

        Raises:
            ConfigurationError: another process has locked it.
            StorageError: an I/O error.
        """
        try:
            self._disk.make_directory(self.path)
            self._disk.lock(f"{self.path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise ConfigurationError(
                f"Failed to acquire lock on file .lock in {self.path}. A Kafka instance in another process or thread "
                "is using this directory."
            ) from error
        except OSError as error:
            raise StorageError(f"cannot open the log directory {self.path}: {error}") from error

    def unlock(self) -> None:
        self._disk.unlock(f"{self.path}/{LOCK_FILE}")

    def open(self) -> None:
        """Read and remove the marker of the last clean shutdown, and read the checkpoints.

        Raises:
            StorageError: an I/O error, or a checkpoint is malformed.
        """
        self._take_clean_shutdown_marker()
        self.recovery_points = self._read(RECOVERY_POINT_CHECKPOINT)
        self._written[RECOVERY_POINT_CHECKPOINT] = self.recovery_points.copy()
        self.log_start_offsets = self._read(LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = self._read(HIGH_WATERMARK_CHECKPOINT)
        try:
            self.first_dirty_offsets = self._read(CLEANER_OFFSET_CHECKPOINT)
        except MalformedFileError as error:
            logger.warning("%s; its logs are compacted from their start again", error)

    def _read(self, name: str) -> dict[TopicPartition, Offset]:
        return read_offsets(self._disk, f"{self.path}/{name}")

    def _take_clean_shutdown_marker(self) -> None:
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        text = read_text(self._disk, path)
        if text is None:
            return
        self.was_clean_shutdown = True
        try:
            self.previous_broker_epoch = int(json.loads(text)["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            # An old Kafka leaves the file empty: the stop was clean all the same.
            self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        try:
            self._disk.remove(path)
            self._disk.sync_directory(self.path)
        except OSError as error:
            raise StorageError(f"cannot remove {path}: {error}") from error

    def find_logs(self) -> tuple[list[TopicPartition], dict[str, TopicPartition], list[str]]:
        """Return the partitions whose logs are here, unfinished copies by name, and the directories to be deleted.

        Raises:
            StorageError: an I/O error.
        """
        try:
            names = self._disk.list_directory(self.path)
        except OSError as error:
            raise StorageError(f"cannot list {self.path}: {error}") from error
        deleted = [name for name in names if directory_mark(name) == "delete"]
        found = (parse_log_directory(name) for name in names if directory_mark(name) is None)
        # The quorum opens the metadata log by itself.
        logs = [log for log in found if log is not None and log.topic != CLUSTER_METADATA_TOPIC]
        futures = {name: partition for name in names if (partition := parse_future_directory(name)) is not None}
        return logs, futures, deleted

    def read_space(self) -> DiskSpace:
        """Return size and usable bytes of the file system.

        Raises:
            StorageError: an I/O error.
        """
        try:
            return self._disk.space(self.path)
        except OSError as error:
            raise StorageError(f"cannot read the free space of {self.path}: {error}") from error

    # --- checkpoints

    def drop_checkpoints_of(self, partition: TopicPartition) -> None:
        """Drop what was read at the start: checkpoints of an earlier log must not apply to a new one of its name."""
        for offsets in (self.recovery_points, self.log_start_offsets, self.high_watermarks, self.first_dirty_offsets):
            offsets.pop(partition, None)

    def checkpoint_recovery_points(self, on_error: Callable[[StorageError], None]) -> None:
        """Write the recovery points off the loop, unless they are unchanged; ``on_error`` is called with a failure.

        A call during a write makes another write follow it.
        """
        self._write_later(RECOVERY_POINT_CHECKPOINT, self._recovery_points, on_error)

    def checkpoint_truncation(self, log: PartitionLog, on_error: Callable[[StorageError], None]) -> None:
        """Write the recovery points likewise, after ``log`` was truncated."""
        self.compare_recovery_point(log)
        self.checkpoint_recovery_points(on_error)

    def compare_recovery_point(self, log: PartitionLog) -> None:
        """Let ``log`` wait for the checkpoint if its recovery point there is, or may soon be, above the log end.

        That would hide the next appends from recovery: if the log rolled a segment, and a power cut lost the end of the
        one before, recovery would start at the new segment and leave a hole below it.
        """
        partition = log.topic_partition
        checkpoints = (self._written, self._being_written)
        offsets = (each.get(RECOVERY_POINT_CHECKPOINT, {}).get(partition, 0) for each in checkpoints)
        is_above = max(offsets) > log.log_end_offset
        log.awaited_checkpoint = self.write_recovery_points if is_above else None

    def _release_logs(self) -> None:
        for _, log in self._all_logs():
            if log.awaited_checkpoint is not None:
                self.compare_recovery_point(log)

    def write_recovery_points(self) -> None:
        """Write the recovery points before returning, instead of a write that is under way.

        Raises:
            StorageError: an I/O error.
            ShortageError: the process is out of file descriptors.
        """
        name, offsets = RECOVERY_POINT_CHECKPOINT, self._recovery_points()
        self._being_written.pop(name, None)  # first: if this write fails, its part of the temporary file is not used
        write_text(self._disk, f"{self.path}/{name}", format_offsets(offsets))
        self._stale.discard(name)
        self._written[name] = offsets
        self._release_logs()

    def lower_recovery_points(self) -> None:
        """Write the recovery points before returning if any is above the end of its log, which has just been loaded.

        Without descriptors, the first append of such a log writes them.

        Raises:
            StorageError: an I/O error.
        """
        loaded = [log for _, log in self._all_logs()]
        for log in loaded:
            self.compare_recovery_point(log)
        if any(log.awaited_checkpoint is not None for log in loaded):
            with suppress(ShortageError):
                self.write_recovery_points()

    def _recovery_points(self) -> dict[TopicPartition, Offset]:
        return {partition: log.recovery_point for partition, log in self._all_logs()}

    def _all_logs(self) -> Iterable[tuple[TopicPartition, PartitionLog]]:
        return (*self.logs.items(), *self.futures.items())

    def checkpoint_log_start_offsets(self, on_error: Callable[[StorageError], None]) -> None:
        """Write likewise the log start offsets that are above the base offset of the first segment."""
        self._write_later(LOG_START_OFFSET_CHECKPOINT, self._raised_log_starts, on_error)

    def checkpoint_high_watermarks(self, on_error: Callable[[StorageError], None]) -> None:
        self._write_later(HIGH_WATERMARK_CHECKPOINT, self._high_watermarks, on_error)

    def _high_watermarks(self) -> dict[TopicPartition, Offset]:
        return {partition: log.high_watermark for partition, log in self.logs.items()}

    def checkpoint_first_dirty_offsets(self, on_error: Callable[[StorageError], None]) -> None:
        """Write, of each log that is or was compacted, up to which offset it has been.

        An entry also shows the next start, which reads the logs before it knows the topics' configuration, that there
        may be gaps between the offsets.
        """
        self._write_later(CLEANER_OFFSET_CHECKPOINT, self._first_dirty_offsets, on_error)

    def _first_dirty_offsets(self) -> dict[TopicPartition, Offset]:
        return {partition: log.first_dirty_offset for partition, log in self._all_logs() if log.may_have_gaps}

    def is_known_to_have_gaps(self, log: PartitionLog) -> bool:
        """Return whether the file of `checkpoint_first_dirty_offsets` has an entry for ``log``, on stable storage."""
        written = self._written.get(CLEANER_OFFSET_CHECKPOINT, self.first_dirty_offsets)
        return log.topic_partition in written

    def is_ready_for_copy(self, future: PartitionLog) -> bool:
        """Return whether the checkpoints of the directory allow recovery of what is copied to ``future``.

        An older log of its name may have left a recovery point there, which would hide the copy from recovery.
        """
        partition = future.topic_partition
        written = self._written.get(RECOVERY_POINT_CHECKPOINT, {}).get(partition)
        # A write under way may have been started before the copy was truncated.
        next_written = self._being_written.get(RECOVERY_POINT_CHECKPOINT, {}).get(partition, 0)
        is_low_enough = written is not None and max(written, next_written) <= future.recovery_point
        return is_low_enough and (not future.may_have_gaps or self.is_known_to_have_gaps(future))

    def _raised_log_starts(self) -> dict[TopicPartition, Offset]:
        return {
            partition: log.log_start_offset
            for partition, log in self.logs.items()
            if log.log_start_offset > log.segments()[0].base_offset
        }

    def _write_later(
        self,
        name: str,
        take_offsets: Callable[[], dict[TopicPartition, Offset]],
        on_error: Callable[[StorageError], None],
    ) -> None:
        if name in self._being_written:
            self._stale.add(name)
            return
        offsets = take_offsets()
        if self._written.get(name) == offsets:
            return
        self._being_written[name] = offsets

        def is_obsolete() -> bool:
            return self._being_written.get(name) is not offsets

        def written(error: KafkaError | None) -> None:
            if is_obsolete():
                return  # `close` or `write_recovery_points` has written the checkpoint meanwhile
            del self._being_written[name]
            if isinstance(error, ShortageError):
                logger.warning("%s is written at the next interval: %s", name, error)
                return
            if isinstance(error, StorageError):
                on_error(error)
                return
            self._written[name] = offsets
            self._release_logs()
            if name in self._stale:
                self._stale.discard(name)
                self._write_later(name, take_offsets, on_error)

        write_text_later(self._disk, f"{self.path}/{name}", format_offsets(offsets), written, is_obsolete=is_obsolete)

    # --- closing

    def close(self, broker_epoch: int) -> None:
        """Close every log, write every checkpoint, then the marker: in this order, because the marker vouches for all.

        Raises:
            StorageError: an I/O error; no marker is written.
        """
        self._being_written.clear()
        open_logs = [log for _, log in self._all_logs()]
        for first in range(0, len(open_logs), LOGS_CLOSED_AT_ONCE):
            self._close_logs(open_logs[first : first + LOGS_CLOSED_AT_ONCE])
        checkpoints: Iterable[tuple[str, dict[TopicPartition, Offset]]] = (
            (RECOVERY_POINT_CHECKPOINT, self._recovery_points()),
            (LOG_START_OFFSET_CHECKPOINT, self._raised_log_starts()),
            (HIGH_WATERMARK_CHECKPOINT, self._high_watermarks()),
            (CLEANER_OFFSET_CHECKPOINT, self._first_dirty_offsets()),
        )
        for name, offsets in checkpoints:
            write_text(self._disk, f"{self.path}/{name}", format_offsets(offsets))
        marker = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        write_text(self._disk, f"{self.path}/{CLEAN_SHUTDOWN_FILE}", marker)

    def _close_logs(self, logs: list[PartitionLog]) -> None:
        """Close some logs; syncing many files at a time takes much less than one by one."""
        closing = [log.begin_close() for log in logs]
        try:
            self._disk.sync_all([file for each in closing for file in each.files])
        except OSError as error:
            raise StorageError(f"cannot sync the logs in {self.path}: {error}") from error
        for each in closing:
            each.end()
