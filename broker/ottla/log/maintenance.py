"""Periodic work on the logs of a node: retention, flushes, checkpoints, removal of deleted files and logs.

The work is cut into slices, so that a tick with thousands of logs never holds the loop for long. Compaction runs from
here too, with slices off the loop.

Source: the scheduled tasks of LogManager in Apache Kafka 4.3.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from ottla.errors import ShortageError, StorageError
from ottla.log.cleaner.config import CleanerConfig
from ottla.log.cleaner.log_cleaner import LogCleaner
from ottla.log.log_directory import LogDirectory
from ottla.log.open_files import OPEN_FILES_MAX
from ottla.log.partition_log import PartitionLog
from ottla.ports import BackgroundTasks, Clock, Disk
from ottla.types import TopicPartition

ITEMS_PER_SLICE = 16
DELETION_CHECK_INTERVAL_MS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogManagerConfig:
    """How often logs are maintained; the defaults are Kafka 4.3's.

    Attributes:
        retention_check_interval_ms: log.retention.check.interval.ms.
        flush_check_interval_ms: log.flush.scheduler.interval.ms.
        recovery_point_checkpoint_interval_ms: log.flush.offset.checkpoint.interval.ms.
        log_start_offset_checkpoint_interval_ms: log.flush.start.offset.checkpoint.interval.ms.
        high_watermark_checkpoint_interval_ms: replica.high.watermark.checkpoint.interval.ms.
        producer_id_expiration_ms: producer.id.expiration.ms.
        producer_id_expiration_check_interval_ms: producer.id.expiration.check.interval.ms.
        open_files_max: how many segments may be open at once; the runtime knows the limit of the process.
        cleaner: log.cleaner.*.
    """

    retention_check_interval_ms: int = 300_000
    flush_check_interval_ms: int = (1 << 63) - 1
    recovery_point_checkpoint_interval_ms: int = 60_000
    log_start_offset_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    open_files_max: int = OPEN_FILES_MAX
    cleaner: CleanerConfig = field(default_factory=CleanerConfig)


_Item = TypeVar("_Item")


class SlicedWork(Protocol):
    """Work that is done a slice per tick."""

    def next_ms(self, now_ms: int) -> int:
        """Return the monotonic time of the next slice."""

    def run_slice(self, now_ms: int) -> None: ...


class PeriodicWork(Generic[_Item]):
    """Work that is done on every item every ``interval_ms``, on `ITEMS_PER_SLICE` of them per tick."""

    def __init__(
        self, interval_ms: int, items: Callable[[], Iterable[_Item]], perform: Callable[[_Item], object], now_ms: int
    ) -> None:
        self.interval_ms = interval_ms
        self.due_ms = now_ms + interval_ms
        self._items = items
        self._perform = perform
        self._waiting: deque[_Item] = deque()

    def next_ms(self, now_ms: int) -> int:
        return now_ms if self._waiting else self.due_ms

    def run_slice(self, now_ms: int) -> None:
        if now_ms >= self.due_ms and not self._waiting:
            self.due_ms = now_ms + self.interval_ms
            self._waiting = deque(self._items())
        for _ in range(min(len(self._waiting), ITEMS_PER_SLICE)):
            self._perform(self._waiting.popleft())


Removal: TypeAlias = tuple[int, LogDirectory, str]
"""The directory of a deleted log: monotonic time of its removal in ms, the log directory it is in, its path."""


class LogMaintenance:
    """Does what is due on the logs of a `LogManager`, a slice per tick.

    Args of the constructor:
        logs: the manager's online logs; changes while work is under way.
        sorted_logs: yields them by topic and partition, and leaves out what is deleted meanwhile.
        online_directories: the directories that have not failed.
        fail: takes a directory offline.
        background: where logs are compacted; None to compact none.

    Attributes:
        cleaner: compacts logs; None without ``background``.
        due_ms: monotonic time of the next work; `tick` changes it, and a completed work of the cleaner.
        is_being_moved: whether a partition's log is being copied to another log directory; set by replication.
        on_log_start_raised: called with a partition of which retention has deleted segments; set by replication.
        producer_id_expiration_ms: producer.id.expiration.ms; each log's next check uses it.
    """

    def __init__(
        self,
        config: LogManagerConfig,
        *,
        disk: Disk,
        clock: Clock,
        logs: Mapping[TopicPartition, PartitionLog],
        sorted_logs: Callable[[], Iterator[PartitionLog]],
        online_directories: Callable[[], Iterator[LogDirectory]],
        fail: Callable[[LogDirectory, StorageError], None],
        background: BackgroundTasks | None = None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._logs = logs
        self._sorted_logs = sorted_logs
        self._online_directories = online_directories
        self._fail = fail
        self._removals: deque[Removal] = deque()
        self.is_being_moved: Callable[[TopicPartition], bool] = lambda _: False
        self.on_log_start_raised: Callable[[TopicPartition], None] | None = None
        self.producer_id_expiration_ms = config.producer_id_expiration_ms
        now_ms = clock.monotonic_ms()
        self.cleaner: LogCleaner | None = None
        if background is not None:
            self.cleaner = LogCleaner(
                disk=disk,
                clock=clock,
                background=background,
                logs=logs,
                config=config.cleaner,
                may_clean=self._may_clean,
                is_being_moved=lambda log: self.is_being_moved(log.topic_partition),
                on_cleaned=self._on_cleaned,
                wake=self._wake,
            )
        self._periodic_work = self._create_periodic_work(config, now_ms)
        self.due_ms = now_ms

    def use_config(self, config: LogManagerConfig) -> None:
        """Apply the settings that change while the node runs: producer.id.expiration.ms and log.cleaner.*."""
        self.producer_id_expiration_ms = config.producer_id_expiration_ms
        if self.cleaner is not None:
            self.cleaner.use_config(config.cleaner)

    def tick(self, now_ms: int) -> None:
        """Do what is due by the monotonic clock; wall time, where records are concerned, is read from the clock."""
        if now_ms < self.due_ms:
            return
        for work in self._periodic_work:
            work.run_slice(now_ms)
        self.due_ms = min([work.next_ms(now_ms) for work in self._periodic_work])

    def _wake(self, due_ms: int) -> None:
        self.due_ms = min(self.due_ms, due_ms)

    def remove_later(self, directory: LogDirectory, path: str, due_ms: int) -> None:
        """Remove a deleted log's directory ``path`` at the first check from the monotonic time ``due_ms`` on."""
        self._removals.append((due_ms, directory, path))

    def checkpoint_recovery_points(self, directory: LogDirectory) -> None:
        directory.checkpoint_recovery_points(lambda error: self._fail(directory, error))

    def checkpoint_truncation(self, directory: LogDirectory, log: PartitionLog) -> None:
        directory.checkpoint_truncation(log, lambda error: self._fail(directory, error))

    def checkpoint_created(self, directory: LogDirectory, log: PartitionLog) -> None:
        """Write the checkpoints that a new log needs: those of a deleted log of its name do not apply to it."""
        directory.compare_recovery_point(log)
        if log.awaited_checkpoint is not None:
            self.checkpoint_recovery_points(directory)
        if log.may_have_gaps:
            self.checkpoint_first_dirty_offsets(directory)

    def checkpoint_moved(self, *directories: LogDirectory) -> None:
        """Write all checkpoints of directories between which a log was moved."""
        for directory in directories:
            self.checkpoint_recovery_points(directory)
            self.checkpoint_first_dirty_offsets(directory)
            self._checkpoint_log_start_offsets(directory)
            self._checkpoint_high_watermarks(directory)

    def checkpoint_first_dirty_offsets(self, directory: LogDirectory) -> None:
        directory.checkpoint_first_dirty_offsets(lambda error: self._fail(directory, error))

    def _create_periodic_work(self, config: LogManagerConfig, now_ms: int) -> Sequence[SlicedWork]:
        monotonic_ms = self._clock.monotonic_ms
        logs: list[tuple[int, Callable[[PartitionLog], object]]] = [
            (config.retention_check_interval_ms, self._apply_retention),
            (config.flush_check_interval_ms, lambda log: log.flush_when_due(monotonic_ms())),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
        ]
        remove_files = self._unless_gone(lambda log: log.remove_deleted_files(monotonic_ms()))
        directories: list[tuple[int, Callable[[LogDirectory], None]]] = [
            (config.recovery_point_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (config.log_start_offset_checkpoint_interval_ms, self._checkpoint_log_start_offsets),
            (config.high_watermark_checkpoint_interval_ms, self._checkpoint_high_watermarks),
            # Besides after each cleaning: a truncation may have lowered some, and a write may have been under way.
            (config.recovery_point_checkpoint_interval_ms, self.checkpoint_first_dirty_offsets),
        ]
        online = self._online_directories
        return [
            *(
                PeriodicWork(each_ms, self._sorted_logs, self._unless_gone(perform), now_ms)
                for each_ms, perform in logs
            ),
            *(PeriodicWork(each_ms, online, perform, now_ms) for each_ms, perform in directories),
            PeriodicWork(DELETION_CHECK_INTERVAL_MS, self._logs_with_deleted_files, remove_files, now_ms),
            # One by one, not directory by directory: a deleted topic may leave a thousand of them.
            PeriodicWork(DELETION_CHECK_INTERVAL_MS, self._due_removals, self._remove, now_ms),
            *([] if self.cleaner is None else [self.cleaner]),
        ]

    def _unless_gone(self, perform: Callable[[PartitionLog], object]) -> Callable[[PartitionLog], None]:
        """Wrap work on a log: one that was deleted or has failed since the interval started is skipped.

        A log whose disk fails takes its directory offline, and one that is short of descriptors waits for the next
        interval: the work on the others continues.
        """

        def performed(log: PartitionLog) -> None:
            if self._logs.get(log.topic_partition) is log:
                with suppress(StorageError, ShortageError):
                    perform(log)

        return performed

    def _apply_retention(self, log: PartitionLog) -> None:
        if log.apply_retention(self._clock.wall_ms()) and self.on_log_start_raised is not None:
            self.on_log_start_raised(log.topic_partition)

    def _expire_producers(self, log: PartitionLog) -> None:
        log.expire_producers(self._clock.wall_ms(), self.producer_id_expiration_ms)

    def _checkpoint_log_start_offsets(self, directory: LogDirectory) -> None:
        directory.checkpoint_log_start_offsets(lambda error: self._fail(directory, error))

    def _checkpoint_high_watermarks(self, directory: LogDirectory) -> None:
        directory.checkpoint_high_watermarks(lambda error: self._fail(directory, error))

    def _on_cleaned(self, log: PartitionLog) -> None:
        directory = self._directory_of(log)
        if directory is not None:
            self.checkpoint_first_dirty_offsets(directory)

    def _may_clean(self, log: PartitionLog) -> bool:
        """The next start must know that the log may have gaps before it has one.

        A log that is being moved must not be cleaned: its copy would keep older records of keys whose tombstones are
        removed. LogManager.abortAndPauseCleaning of Kafka.
        """
        if self.is_being_moved(log.topic_partition):
            return False
        directory = self._directory_of(log)
        if directory is None or directory.is_known_to_have_gaps(log):
            return directory is not None
        self.checkpoint_first_dirty_offsets(directory)
        return False

    def _directory_of(self, log: PartitionLog) -> LogDirectory | None:
        online = self._online_directories()
        return next((each for each in online if each.logs.get(log.topic_partition) is log), None)

    def _logs_with_deleted_files(self) -> list[PartitionLog]:
        """Only these: thousands of logs would be too many to walk every second."""
        return [log for log in self._logs.values() if log.has_deleted_files]

    def _due_removals(self) -> list[Removal]:
        now_ms = self._clock.monotonic_ms()
        return [removal for removal in self._removals if removal[0] <= now_ms and removal[1].failure is None]

    def _remove(self, removal: Removal) -> None:
        self._removals.remove(removal)
        _, directory, path = removal
        try:
            self._disk.remove_tree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._fail(directory, StorageError(f"cannot remove {path}: {error}"))
