"""`MetadataLog`: the log of ``__cluster_metadata`` together with its snapshots.

When the newest snapshot is ahead of the log, in offset or epoch (a replica that crashed while it loaded one), the log
restarts at the snapshot. Everything below the newest snapshot was synced before the snapshot was published: recovery
after a crash starts there. The log rolls when a snapshot is complete, so that the records it replaces can be removed.

Source: KafkaRaftLog of Apache Kafka.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import NamedTuple

from ottla.errors import CorruptRecordError, OffsetOutOfRangeError, StorageError
from ottla.log.checkpoint import PARTITION_METADATA, format_partition_metadata, write_text
from ottla.log.config import UNLIMITED, LogConfig
from ottla.log.partition_log import AppendOrigin, PartitionLog
from ottla.log.unknown_epochs import truncate_unknown_epochs
from ottla.ports import Clock, Disk
from ottla.raft.config import RaftConfig
from ottla.raft.quorum_state_file import QuorumStateFile
from ottla.raft.record_batch import BATCH_SIZE_BYTES_MAX
from ottla.raft.snapshot import (
    PART_SUFFIX,
    parse_snapshot_file_name,
    read_last_contained_log_time_ms,
    snapshot_file_name,
)
from ottla.types import (
    CLUSTER_METADATA_TOPIC,
    CLUSTER_METADATA_TOPIC_ID,
    LeaderEpoch,
    Offset,
    OffsetAndEpoch,
    TopicPartition,
)
from ottla.wire.records import RecordBatch, iterate_batches

METADATA_PARTITION = TopicPartition(CLUSTER_METADATA_TOPIC, 0)
_READ_SIZE_BYTES = 1024 * 1024


class Validity(Enum):
    """Relation of a fetching replica's log to this one."""

    VALID = auto()
    DIVERGING = auto()
    SNAPSHOT = auto()


class ValidOffsetAndEpoch(NamedTuple):
    """``at``: the position itself, the latest possible divergence point of the two logs, or the snapshot to load."""

    validity: Validity
    at: OffsetAndEpoch


class MetadataLog:
    """See the module. ``directory`` is the partition's own; ``snapshots`` are the ids on disk, oldest first."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        metadata_log_directory: str,
        config: RaftConfig,
        on_storage_error: Callable[[StorageError], None],
    ) -> None:
        """Open the log and snapshots in ``metadata_log_directory``.

        Raises:
            StorageError: the disk failed.
        """
        self.directory = f"{metadata_log_directory}/{METADATA_PARTITION}"
        self._disk = disk
        self._clock = clock
        self._config = config
        self.snapshots = self._list_snapshots()
        self._write_partition_metadata()
        start_offset = self.snapshots[0].offset if self.snapshots else 0
        self.log = PartitionLog.open(
            disk=disk,
            directory=self.directory,
            topic_partition=METADATA_PARTITION,
            topic_id=CLUSTER_METADATA_TOPIC_ID,
            config=LogConfig(
                segment_bytes=config.segment_size_bytes_max,
                segment_ms=config.segment_ms,
                retention_ms=UNLIMITED,
                retention_bytes=UNLIMITED,
                max_message_bytes=BATCH_SIZE_BYTES_MAX,
            ),
            clock=clock,
            recovery_point=self.snapshots[-1].offset if self.snapshots else 0,
            log_start_offset=start_offset,
            on_storage_error=on_storage_error,
        )
        election = QuorumStateFile(disk, self.directory).read()
        if election is not None:
            # Each epoch was durable in this file before its first batch was appended.
            truncate_unknown_epochs(self.log, election.epoch)
        if self.snapshots and self._is_behind(self.snapshots[-1]):
            self.start_at_snapshot(self.snapshots[-1])

    @property
    def end_offset(self) -> Offset:
        return self.log.log_end_offset

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch in the log, or else in its newest snapshot; 0 when there is neither."""
        newest = self.snapshots[-1].epoch if self.snapshots else 0
        return max(self.log.latest_epoch, newest)

    @property
    def end(self) -> OffsetAndEpoch:
        """The log end and the epoch of the record before it."""
        return OffsetAndEpoch(self.end_offset, self.latest_epoch)

    def end_offset_for_epoch(self, epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Return the largest epoch at or below ``epoch``, and where it ends in this log or its snapshots."""
        end = self.log.offset_for_leader_epoch(epoch)
        if end is None:
            return self.end
        if self.snapshots:
            earliest = self.snapshots[0]
            if end.offset == earliest.offset == self.log.log_start_offset and end.epoch == epoch:
                # The log has no such epoch, but its first record follows the snapshot of that epoch.
                return earliest
        return end

    def validate(self, offset: Offset, epoch: LeaderEpoch) -> ValidOffsetAndEpoch:
        """Return how a log that ends at ``offset``, with ``epoch`` as its last epoch, relates to this one.

        Source: RaftLog.validateOffsetAndEpoch of Apache Kafka.
        """
        start_offset = self.log.log_start_offset
        latest = self.snapshots[-1] if self.snapshots else OffsetAndEpoch(0, 0)
        if offset == 0 and latest.offset > 0:
            # For an empty log the newest snapshot is the shortest way to catch up.
            return ValidOffsetAndEpoch(Validity.SNAPSHOT, latest)
        if start_offset == 0 and offset == 0:
            return ValidOffsetAndEpoch(Validity.VALID, OffsetAndEpoch(0, 0))
        if self.snapshots:
            earliest = self.snapshots[0]
            is_before = offset < start_offset or epoch < earliest.epoch
            if is_before or (offset == start_offset and epoch != earliest.epoch):
                return ValidOffsetAndEpoch(Validity.SNAPSHOT, latest)
        end = self.end_offset_for_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return ValidOffsetAndEpoch(Validity.DIVERGING, end)
        return ValidOffsetAndEpoch(Validity.VALID, OffsetAndEpoch(offset, epoch))

    def snapshot_path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_file_name(snapshot_id)}"

    def append(self, batch: bytes, epoch: LeaderEpoch) -> Offset:
        """Write a batch that carries its offsets and epoch; return its last offset."""
        result = self.log.append_as_leader(
            batch, leader_epoch=epoch, origin=AppendOrigin.RAFT_LEADER, now_ms=self._clock.wall_ms()
        )
        return result.last_offset

    def append_as_follower(self, records: bytes, epoch_max: LeaderEpoch) -> list[RecordBatch]:
        """Write the whole batches in ``records`` that are not from a later epoch; return them.

        Raises:
            CorruptRecordError: a batch is corrupt.
            KafkaError: the batches do not continue at the log end.
            StorageError: the disk failed.
        """
        batches = []
        for batch in iterate_batches(records):
            if batch.leader_epoch > epoch_max:
                break
            batches.append(batch)
        if not batches:
            return []
        if batches[0].base_offset != self.end_offset:
            raise OffsetOutOfRangeError(
                f"the leader sent the batch at offset {batches[0].base_offset} of {METADATA_PARTITION}, but the log "
                f"ends at {self.end_offset}"
            )
        self.log.append_as_follower(memoryview(records)[: batches[-1].end_position], now_ms=self._clock.wall_ms())
        return batches

    def read(self, start_offset: Offset, *, size_bytes_max: int) -> bytes:
        """Return whole batches from ``start_offset`` to the log end, the first one even when it is larger."""
        records = self.log.read(start_offset, size_bytes_max=size_bytes_max).records
        if records is None:
            return b""
        try:
            return records.read()
        except OSError as error:
            raise StorageError(f"cannot read {self.directory} at offset {start_offset}: {error}") from error

    def end_in_common(self, leader_end: OffsetAndEpoch) -> Offset:
        """Return the offset up to which this log may match the leader's; the batches from there on are to be truncated.

        ``leader_end``: the largest epoch of the leader at or below ours, and where it ends there.
        Source: RaftLog.truncateToEndOffset of Apache Kafka.
        """
        if leader_end.epoch == 0:
            return min(leader_end.offset, self.end_offset)
        end = self.end_offset_for_epoch(leader_end.epoch)
        return min(end.offset, leader_end.offset) if end.epoch == leader_end.epoch else end.offset

    def truncate_to(self, offset: Offset) -> Offset:
        """Truncate the log to ``offset``; return the new log end, which is below it when a batch straddles it."""
        self.log.truncate_to(offset)
        return self.end_offset

    def batches(self, start_offset: Offset, end_offset: Offset) -> Iterator[RecordBatch]:
        """Yield the batches from ``start_offset`` up to, not including, ``end_offset``.

        Raises:
            StorageError: the disk failed, or a batch is corrupt.
        """
        offset = start_offset
        while offset < end_offset:
            records = self.log.read(offset, size_bytes_max=_READ_SIZE_BYTES, upper_bound_offset=end_offset).records
            if records is None:
                return
            try:
                for batch in iterate_batches(records.read()):
                    if batch.last_offset >= offset:
                        batch.check_crc()
                        yield batch
                        offset = batch.next_offset
            except CorruptRecordError as error:
                raise StorageError(f"{self.directory} is corrupt at offset {offset}: {error}") from error
            except OSError as error:
                raise StorageError(f"cannot read {self.directory} at offset {offset}: {error}") from error

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Add a snapshot that is durable now; remove it when a newer one is there already."""
        if self.snapshots and self.snapshots[-1].offset >= snapshot_id.offset:
            if snapshot_id not in self.snapshots:
                self._remove_snapshot(snapshot_id)
            return
        self.snapshots.append(snapshot_id)
        self.log.roll(self._clock.wall_ms())

    def start_at_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """Drop the log and all other snapshots: the durable ``snapshot_id`` replaces them."""
        self.log.truncate_fully_and_start_at(snapshot_id.offset)
        others = [each for each in self.snapshots if each != snapshot_id]
        self.snapshots = [snapshot_id]
        for each in others:
            self._remove_snapshot(each)

    def _is_behind(self, snapshot_id: OffsetAndEpoch) -> bool:
        log = self.log
        if snapshot_id.offset > log.log_end_offset:
            return True
        has_records = log.log_end_offset > log.log_start_offset
        return has_records and snapshot_id.epoch > log.latest_epoch

    def clean(self, now_ms: int) -> list[OffsetAndEpoch]:
        """Remove snapshots and log segments that newer snapshots supersede, oldest first; return the snapshots removed.

        A snapshot goes with the log below the next one, while log and snapshots are larger than the retention size or
        the snapshot's newest record is older than the retention time. The newest snapshot always stays.
        """
        removed = []
        while len(self.snapshots) > 1 and self._is_superfluous(now_ms):
            self.log.delete_records_before(self.snapshots[1].offset)
            removed.append(self.snapshots.pop(0))
        for snapshot_id in removed:
            self._remove_snapshot(snapshot_id)
        if removed:
            self.log.apply_retention(now_ms)
        return removed

    def close(self) -> None:
        self.log.close()

    def _remove_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        try:
            self._disk.remove(self.snapshot_path(snapshot_id))
        except OSError as error:
            raise StorageError(f"cannot remove {self.snapshot_path(snapshot_id)}: {error}") from error

    def _write_partition_metadata(self) -> None:
        """Write ``partition.metadata`` durably: a log with a torn identity cannot be opened, and this one must be."""
        path = f"{self.directory}/{PARTITION_METADATA}"
        if not self._disk.exists(path):
            write_text(self._disk, path, format_partition_metadata(CLUSTER_METADATA_TOPIC_ID))

    def _is_superfluous(self, now_ms: int) -> bool:
        """Whether the oldest snapshot is to be removed."""
        if self._config.retention_size_bytes >= 0:
            size_bytes = self.log.size_bytes + sum(self._snapshot_size_bytes(each) for each in self.snapshots)
            if size_bytes > self._config.retention_size_bytes:
                return True
        if self._config.retention_ms < 0:
            return False
        newest_ms = read_last_contained_log_time_ms(self._disk, self.snapshot_path(self.snapshots[0]))
        return now_ms - newest_ms > self._config.retention_ms

    def _snapshot_size_bytes(self, snapshot_id: OffsetAndEpoch) -> int:
        try:
            return self._disk.size_bytes(self.snapshot_path(snapshot_id))
        except OSError as error:
            raise StorageError(f"cannot read the size of {self.snapshot_path(snapshot_id)}: {error}") from error

    def _list_snapshots(self) -> list[OffsetAndEpoch]:
        """Return the finished snapshots, oldest first; remove unfinished ones that a crash left."""
        try:
            self._disk.make_directory(self.directory)
            names = self._disk.list_directory(self.directory)
            for name in names:
                if name.endswith(PART_SUFFIX):
                    self._disk.remove(f"{self.directory}/{name}")
        except OSError as error:
            raise StorageError(f"cannot list {self.directory}: {error}") from error
        found = (parse_snapshot_file_name(name) for name in names)
        return sorted(snapshot_id for snapshot_id in found if snapshot_id is not None)
