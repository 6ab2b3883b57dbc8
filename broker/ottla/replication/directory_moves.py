"""`DirectoryMoves`: moves replicas between the log directories of this node (KIP-113).

Each move copies the replica's log, led or followed, to a future log in the other directory, in portions: bytes are read
off the loop and appended on it, a few batches per tick. A move has these stages:

1. *Waiting*: num.replica.alter.log.dirs.threads others are under way, or checkpoints of the target are being written.
2. *Copying*, until the copy has the same end, epochs and log start; it is synced then.
3. *Reported*: the controller records the new directory, while copying continues. It must know it before the log is
   there, or the failure of that directory would not make the replica fail (KIP-858).
4. When the controller has acknowledged it, and both logs end at the same offset within one step of the loop,
   `FutureLogs.promote` replaces the log.

The copy has what the log has synced: the replacement takes no record back that was confirmed. If the log is truncated,
the copy is truncated to the end of their common leader epochs. The log is not compacted during its move, as with JVM
Kafka: a copy with records from before a cleaning would bring deleted keys back once their tombstones are removed.

Source: ReplicaAlterLogDirsThread, ReplicaAlterLogDirsManager, ReplicaManager.alterReplicaLogDirs of Apache Kafka 4.3.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from ottla.errors import CorruptRecordError, KafkaError, ShortageError, StorageError
from ottla.log.future_logs import copy_config
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster import DIRECTORY_LOST
from ottla.ports import Background, Clock
from ottla.replication.config import ReplicationConfig
from ottla.replication.directory_assignments import DirectoryAssignments
from ottla.replication.directory_copy import (
    PORTION_BYTES,
    TAIL_BYTES,
    append_some,
    follow_log_start,
    prepare_copy,
    truncate_to_common_prefix,
)
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.types import NEVER_MS, Offset, TopicPartition

logger = logging.getLogger(__name__)

POLL_MS = 20
"""Between two checks whether the controller, a disk or the quota allows a move to continue."""
RETRY_MS = 1_000
EXPIRY_INTERVAL_MS = 600_000


@dataclass(slots=True, eq=False)
class _Move:
    """One move.

    ``unappended`` are bytes that were read and are not appended yet; None while there are none. The truncation counts
    are those of the log that the copy has followed, and of the copy when its checkpoints were last known to be written.
    ``tail_offset`` is where the log ended when a read off the loop was last started: what follows is in the page cache.
    """

    partition: Partition
    future: PartitionLog
    started_ms: int
    due_ms: int
    truncation_count: int
    copy_truncation_count: int
    tail_offset: Offset
    expires_ms: int
    unappended: memoryview | None = None
    is_ready: bool = False
    is_reading: bool = False
    is_flushing: bool = False
    is_synced: bool = False
    is_reported: bool = False
    copied_bytes: int = 0

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    @property
    def lag(self) -> int:
        return max(0, self.log.log_end_offset - self.future.log_end_offset)


class DirectoryMoves:
    """See the module.

    Attributes:
        report: compares the directory of a partition's log with the metadata, after a move has ended; set by the owner.
        due_ms: when `tick` has work.
        failed: partitions whose copy failed; they are moved again when they are requested to, or at the next start.
        completed: how many moves have replaced a log since the start.
    """

    def __init__(
        self,
        *,
        logs: LogManager,
        clock: Clock,
        background: Background,
        assignments: DirectoryAssignments,
        config: Callable[[], ReplicationConfig],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._background = background
        self._assignments = assignments
        self._config = config
        self.report: Callable[[Partition], object] = lambda _: None
        settings = config()
        self._quota = ReplicationQuota(
            window_count=settings.directory_move_window_count,
            window_size_seconds=settings.directory_move_window_size_seconds,
        )
        self._moves: dict[TopicPartition, _Move] = {}
        logs.maintenance.is_being_moved = self._moves.__contains__
        self.due_ms = NEVER_MS
        self.failed: set[TopicPartition] = set()
        self.completed = 0

    def __len__(self) -> int:
        return len(self._moves)

    @property
    def max_lag(self) -> int:
        """Records that the slowest copy still lacks."""
        return max((move.lag for move in self._moves.values()), default=0)

    def is_reported(self, topic_partition: TopicPartition) -> bool:
        """Return whether the controller has been, or is being notified of the new directory of the partition."""
        move = self._moves.get(topic_partition)
        return move is not None and move.is_reported

    # --- starting and ending

    def start(self, partition: Partition, path: str, *, may_create: bool) -> None:
        """Move a partition's log to ``path``; to where it is: only end another move.

        Args:
            partition: on this node.
            path: of an online log directory.
            may_create: whether all directories are online; else an offline one may have a copy already.

        Raises:
            StorageError: the copy cannot be created, or truncated.
        """
        topic_partition = partition.topic_partition
        future = self._logs.futures.get(topic_partition)
        if future is not None and future.parent_directory != path:
            self.cancel(topic_partition)
            future = None
        self.failed.discard(topic_partition)
        if partition.log.parent_directory == path:
            return
        if future is None:
            if not may_create:
                raise StorageError(f"{topic_partition} is not copied to {path} while a log directory is offline")
            future = self._logs.futures.create(partition.log, path)
        self._add(partition, future)

    def on_assigned(self, partition: Partition) -> None:
        """Continue the move that the last process has started, if there is one."""
        topic_partition = partition.topic_partition
        future = self._logs.futures.get(topic_partition)
        if future is None or topic_partition in self._moves or topic_partition in self.failed:
            return
        is_same_topic = future.topic_id in (None, partition.topic_id)
        if not is_same_topic or future.parent_directory == partition.log.parent_directory:
            with suppress(StorageError):
                self._logs.futures.remove(topic_partition)
            return
        try:
            future.assign_topic_id(partition.topic_id)
            future.update_config(copy_config(partition.log.config))
            self._add(partition, future)
        except (StorageError, ShortageError) as error:
            logger.error("%s: the copy in %s cannot be used: %s", topic_partition, future.directory, error)

    def _add(self, partition: Partition, future: PartitionLog) -> None:
        topic_partition = partition.topic_partition
        if topic_partition in self._moves:
            return
        prepare_copy(partition.log, future)
        now_ms = self._clock.monotonic_ms()
        self._moves[topic_partition] = _Move(
            partition,
            future,
            started_ms=now_ms,
            due_ms=now_ms,
            truncation_count=partition.log.truncation_count,
            copy_truncation_count=future.truncation_count,
            tail_offset=partition.log.log_end_offset,
            expires_ms=now_ms + EXPIRY_INTERVAL_MS,
        )
        self._logs.futures.checkpoint(future)
        logger.info(
            "moving %s from %s to %s: %d records are to be copied",
            topic_partition,
            partition.log.parent_directory,
            future.parent_directory,
            partition.log.log_end_offset - max(future.log_end_offset, partition.log.log_start_offset),
        )
        self._plan()

    def cancel(self, topic_partition: TopicPartition) -> None:
        """End a move and delete the copy.

        Raises:
            StorageError: the copy's directory failed.
        """
        move = self._moves.pop(topic_partition, None)
        self._plan()
        try:
            self._logs.futures.remove(topic_partition)
        finally:
            if move is not None:
                logger.info("the move of %s to %s was cancelled", topic_partition, move.future.parent_directory)
                if move.is_reported:
                    self.report(move.partition)

    def on_ended(self, partition: Partition, *, is_lost: bool) -> None:
        """End the move of a partition that left this node, or (``is_lost``) whose log directory failed."""
        topic_partition = partition.topic_partition
        self.failed.discard(topic_partition)
        move = self._moves.pop(topic_partition, None)
        self._plan()
        if is_lost:
            self._logs.futures.release(topic_partition)
            if move is not None and move.is_reported:
                # The controller has, or gets the other directory, whose replica would not fail with this one.
                self._assignments.assign(partition.topic_id, topic_partition.partition, DIRECTORY_LOST)

    def remove_strays(self, is_stray: Callable[[TopicPartition], bool]) -> None:
        """Delete the copies of partitions that the metadata assigns to other nodes."""
        for topic_partition in self._logs.futures.partitions():
            if topic_partition not in self._moves and is_stray(topic_partition):
                with suppress(StorageError):
                    self._logs.futures.remove(topic_partition)

    def _fail(self, move: _Move, error: Exception) -> None:
        """End a move that cannot continue; the log stays where it is."""
        topic_partition = move.partition.topic_partition
        del self._moves[topic_partition]
        self.failed.add(topic_partition)
        logger.error("the move of %s to %s failed: %s", topic_partition, move.future.parent_directory, error)
        if move.is_reported:
            self.report(move.partition)

    # --- time

    def _plan(self) -> None:
        moves = self._active()
        self.due_ms = min((move.due_ms for move in moves), default=NEVER_MS)

    def _active(self) -> list[_Move]:
        """Return the moves that may be under way now: the oldest ones."""
        count = self._config().directory_move_threads or len(self._logs.directory_ids())
        return list(islice(self._moves.values(), max(1, count)))

    def tick(self, now_ms: int) -> None:
        """Advance the moves that are due, each by one bounded step."""
        if now_ms < self.due_ms:
            return
        self._quota.rate = self._config().directory_move_rate
        for move in self._active():
            if move.due_ms <= now_ms:
                self._step(move, now_ms)
        self._plan()

    def _step(self, move: _Move, now_ms: int) -> None:
        move.due_ms = now_ms + POLL_MS
        if move.future.failure is not None:
            self._fail(move, move.future.failure)
            return
        if move.log.failure is not None:
            return  # `on_ended` follows
        try:
            self._advance(move, now_ms)
        except ShortageError as error:
            logger.warning("%s: the move waits: %s", move.partition.topic_partition, error)
            move.due_ms = now_ms + RETRY_MS
        except StorageError as error:
            if move.log.failure is None:
                self._fail(move, error)
        except (CorruptRecordError, KafkaError) as error:
            self._fail(move, error)

    def _advance(self, move: _Move, now_ms: int) -> None:
        log, future = move.log, move.future
        if future.has_deleted_files:
            future.remove_deleted_files(now_ms)
        if move.is_reading or not self._is_ready(move):
            return
        if move.truncation_count != log.truncation_count:
            move.truncation_count, move.unappended = log.truncation_count, None
            truncate_to_common_prefix(log, future)
        # Unless the log start is within a batch that is about to be appended.
        is_in_order = move.unappended is None or future.log_end_offset >= future.log_start_offset
        if is_in_order and follow_log_start(log, future):
            move.unappended = None
        if move.copy_truncation_count != future.truncation_count:
            return
        if move.unappended is not None:
            self._append(move)
            move.due_ms = now_ms
        elif future.log_end_offset < log.log_end_offset:
            self._copy(move, now_ms)
        else:
            self._try_to_end(move)
        if now_ms >= move.expires_ms:
            move.expires_ms = now_ms + EXPIRY_INTERVAL_MS
            future.expire_producers(self._clock.wall_ms())

    def _is_ready(self, move: _Move) -> bool:
        """Return whether records may be appended to the copy; else write the checkpoints that recovery needs first."""
        log, future = move.log, move.future
        if log.may_have_gaps and not future.may_have_gaps:
            future.may_have_gaps, move.is_ready = True, False
        if move.copy_truncation_count != future.truncation_count:
            # Until its lower recovery point is written, the old one would hide what is appended from recovery.
            move.copy_truncation_count, move.is_ready, move.is_synced = future.truncation_count, False, False
        if not move.is_ready:
            move.is_ready = self._logs.futures.is_ready(future)
        if not move.is_ready:
            self._logs.futures.checkpoint(future)
        return move.is_ready

    def _append(self, move: _Move) -> None:
        assert move.unappended is not None
        left = append_some(move.future, move.unappended)
        move.unappended = left if len(left) else None
        move.future.update_high_watermark(move.log.high_watermark)

    # --- copying

    def _copy(self, move: _Move, now_ms: int) -> None:
        """Read the next portion: off the loop, or a short one, which is the end of a busy log, at once."""
        log, future = move.log, move.future
        if self._quota.is_exceeded(now_ms):
            return
        found = log.read(future.log_end_offset, size_bytes_max=PORTION_BYTES).records
        if found is None:
            future.skip_to(log.log_end_offset)
            move.due_ms = now_ms
            return
        self._quota.record(found.size_bytes, now_ms)
        is_tail = future.log_end_offset >= move.tail_offset and found.size_bytes <= TAIL_BYTES
        move.copied_bytes += found.size_bytes
        if is_tail:
            try:
                move.unappended = memoryview(found.read())
            except OSError as error:
                raise StorageError(f"cannot read {log.directory}: {error}") from error
            self._append(move)
            move.due_ms = now_ms
            if move.unappended is None and future.log_end_offset == log.log_end_offset:
                self._try_to_end(move)
            return
        move.is_reading = True
        move.tail_offset = log.log_end_offset
        truncation_count = log.truncation_count
        self._background.run(found.read, lambda outcome: self._on_read(move, truncation_count, outcome))

    def _on_read(self, move: _Move, truncation_count: int, outcome: bytes | Exception) -> None:
        move.is_reading = False
        if self._moves.get(move.partition.topic_partition) is not move:
            return
        now_ms = self._clock.monotonic_ms()
        move.due_ms = now_ms
        if isinstance(outcome, OSError):
            # The log's directory fails as soon as a client reads there; the move must not decide that.
            self._fail(move, outcome)
        elif isinstance(outcome, Exception):
            logger.warning("%s: the move waits: %s", move.partition.topic_partition, outcome)
            move.due_ms = now_ms + RETRY_MS
        elif truncation_count == move.log.truncation_count and outcome:
            move.unappended = memoryview(outcome)
        self._plan()

    # --- the end

    def _try_to_end(self, move: _Move) -> None:
        """Sync a copy that has caught up, report it, and replace the log once that is acknowledged."""
        log, future = move.log, move.future
        if future.copy_epochs_of(log):
            move.is_synced = False
        if move.is_flushing:
            return
        if not move.is_synced:
            self._flush(move)
            return
        if not move.is_reported:
            if self._logs.futures.can_promote(move.partition.topic_partition):
                self._report_target(move)
            return
        if not self._is_acknowledged(move):
            return
        if future.recovery_point < log.recovery_point or future.confirmable_offset < log.confirmable_offset:
            self._flush(move)
            return
        self._promote(move)

    def _flush(self, move: _Move) -> None:
        def flushed(error: StorageError | None) -> None:
            move.is_flushing = False
            if self._moves.get(move.partition.topic_partition) is not move:
                return
            now_ms = self._clock.monotonic_ms()
            move.is_synced = error is None
            # At once: with the next sync of a busy log the copy would be behind again.
            self._step(move, now_ms)
            self._plan()

        move.is_flushing = True
        try:
            move.future.flush_later(flushed)
        except KafkaError:  # no descriptors at the moment, or an error of the disk
            move.is_flushing = False
            raise

    def _report_target(self, move: _Move) -> None:
        directory_id = self._logs.directory_ids().get(move.future.parent_directory)
        move.is_reported = True
        if directory_id is not None:
            partition = move.partition
            self._assignments.assign(partition.topic_id, partition.topic_partition.partition, directory_id)

    def _is_acknowledged(self, move: _Move) -> bool:
        partition = move.partition
        return not self._assignments.is_pending(partition.topic_id, partition.topic_partition.partition)

    def _promote(self, move: _Move) -> None:
        log, topic_partition = move.log, move.partition.topic_partition
        source = log.parent_directory
        assert move.future.log_start_offset <= log.log_start_offset, "the copy starts too late"
        self._logs.futures.promote(log)
        self._moves.pop(topic_partition, None)  # `on_ended` has removed it if the target has failed
        self.completed += 1
        logger.info(
            "moved %s from %s to %s: %d bytes copied in %d ms",
            topic_partition,
            source,
            log.parent_directory,
            move.copied_bytes,
            self._clock.monotonic_ms() - move.started_ms,
        )
