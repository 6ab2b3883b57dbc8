"""The state of one partition's log: its attributes, what follows from its files, and the failure that ends it.

`PartitionLog` and its appends change it. A first StorageError ends the log; see `partition_log`.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.log.checkpoint import write_partition_metadata
from ottla.log.config import LogConfig
from ottla.log.local_log import LocalLog
from ottla.log.open_files import OpenFiles
from ottla.log.producer_state import ProducerStateEntry
from ottla.log.recovery import LoadedLog
from ottla.log.segment import Segment
from ottla.ports import Clock, Disk
from ottla.purgatory.steps import Steps
from ottla.types import LeaderEpoch, Offset, TopicPartition, Uuid

_Result = TypeVar("_Result")


class LogState:
    """See the module. Attributes are public to read and changed only by the methods of the log.

    Attributes:
        topic_partition, topic_id, config: as given; ``topic_id`` is None until it is known.
        log_start_offset: the first offset that can be read.
        high_watermark: set by the owner through `update_high_watermark`; between log start and log end.
        first_dirty_offset: records below were compacted, as far as is known; set by the log cleaner.
        may_have_gaps: whether the topic is compacted, or was at any time: recovery must not take a gap between offsets
            for lost writes.
        truncation_count: how often records were removed from the log end since the log was opened.
        truncated_bytes: how many bytes recovery truncated when the log was opened.
        awaited_checkpoint: writes the recovery point to stable storage, where it may be above the log end, as after a
            truncation; None while it is not. Set by the owner. The next append calls it, which blocks the loop.
        failure: the error that ended the log; None while it works.
    """

    __slots__ = (
        "_clock",
        "_disk",
        "_local",
        "_on_storage_error",
        "_on_truncated",
        "awaited_checkpoint",
        "config",
        "failure",
        "first_dirty_offset",
        "high_watermark",
        "log_start_offset",
        "may_have_gaps",
        "topic_id",
        "topic_partition",
        "truncated_bytes",
        "truncation_count",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        clock: Clock,
        open_files: OpenFiles,
        loaded: LoadedLog,
        on_storage_error: Callable[[StorageError], None] | None,
        on_truncated: Callable[..., None] | None,
    ) -> None:
        """Use `PartitionLog.open`."""
        self._disk = disk
        self._clock = clock
        self._on_storage_error = on_storage_error
        self._on_truncated = on_truncated
        self.awaited_checkpoint: Callable[[], None] | None = None
        self._local = LocalLog(
            disk, directory, open_files, loaded, monotonic_ms=clock.monotonic_ms, on_sync_error=self._note_failure
        )
        self.topic_partition = topic_partition
        self.topic_id: Uuid | None = None
        self.config = config
        self.log_start_offset: Offset = loaded.log_start_offset
        self.high_watermark: Offset = loaded.log_start_offset
        self.first_dirty_offset: Offset = 0
        self.may_have_gaps = config.is_compacted
        self.truncation_count = 0
        self.truncated_bytes = loaded.truncated_bytes
        self.failure: StorageError | None = None

    def __repr__(self) -> str:
        return f"PartitionLog({self.directory!r}, offsets {self.log_start_offset} to {self.log_end_offset})"

    # --- state

    @property
    def directory(self) -> str:
        return self._local.directory

    @property
    def parent_directory(self) -> str:
        """The path of the log directory that the log is in."""
        return self._local.directory.rpartition("/")[0]

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
        return self._local.log_end_offset

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that a read_committed reader may not see; at most the high watermark."""
        unstable = self._local.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def recovery_point(self) -> Offset:
        """Everything below is on stable storage."""
        return self._local.durability.recovery_point

    @property
    def confirmable_offset(self) -> Offset:
        """Everything below may be confirmed as being in this log: see `Durability.confirmable_offset`."""
        local = self._local
        # Read three times per produce request, and most topics never demand a sync.
        if self.config.awaits_syncs or local.durability.demanded_offset:
            return local.durability.confirmable_offset(local.log_end_offset, self.config)
        return local.log_end_offset

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self._local.segments.size_bytes

    def segments(self) -> list[Segment]:
        """Return the segments, oldest first, for reading only."""
        return list(self._local.segments)

    def active_producers(self) -> list[ProducerStateEntry]:
        """Return the state of each producer, by producer id, for DescribeProducers."""
        return [entry for _, entry in sorted(self._local.producers.producers.items())]

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest leader epoch that the log knows; -1 when it knows none."""
        return self._local.epochs.latest_epoch

    def assign_topic_id(self, topic_id: Uuid) -> None:
        """Write the topic's id to ``partition.metadata``.

        Raises:
            KafkaError: INCONSISTENT_TOPIC_ID, when the log belongs to another topic of the same name.
        """
        if self.topic_id == topic_id:
            return
        if self.topic_id is not None:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.directory} holds the log of another topic named {self.topic_partition.topic}: its id is not "
                "the one in the metadata",
            )
        self._guarded(lambda: write_partition_metadata(self._disk, self.directory, topic_id))
        self._local.durability.on_files_changed()
        self.topic_id = topic_id

    # --- failure

    def _guarded(self, action: Callable[[], _Result]) -> _Result:
        if self.failure is not None:
            raise self.failure
        try:
            return action()
        except StorageError as error:
            self._fail(error)

    def _guarded_steps(self, steps: Steps[_Result]) -> Steps[_Result]:
        if self.failure is not None:
            raise self.failure
        local = self._local
        try:
            return (yield from steps)
        except StorageError as error:
            if self._local is not local:
                raise  # the log has other files now: it was moved to another log directory
            self._fail(error)

    def _fail(self, error: StorageError) -> NoReturn:
        self._note_failure(error)
        raise error

    def _write_awaited_checkpoint(self, write: Callable[[], None]) -> None:
        """Write the recovery point before an append: recovery would not check the records that are below it."""
        self._guarded(write)
        assert self.awaited_checkpoint is None, "a recovery point above the log end was written"

    def end_with(self, error: StorageError) -> None:
        """End the log with an I/O error of work off the loop."""
        self._note_failure(error)

    def _note_failure(self, error: StorageError) -> None:
        if self.failure is None:
            self.failure = error
            if self._on_storage_error is not None:
                self._on_storage_error(error)
