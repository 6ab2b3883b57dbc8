"""The log of one partition: an ordered, append-only sequence of record batches, kept in segments on disk.

This file holds the state and the data path (append, read); what changes the shape of the log lives beside it
(`recovery`, `truncation`, `retention`) and works on the same object. One `PartitionLog` has one owner, the node's
loop: nothing here is thread-safe.

Source: UnifiedLog and LocalLog of Apache Kafka 4.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.log.config import LogConfig
from ottla.ports import Buffer, Clock, Disk, FileSlice
from ottla.types import LeaderEpoch, Offset, OffsetAndEpoch, TopicPartition, Uuid


class AppendOrigin(Enum):
    """Who makes the leader append, which decides how much is checked."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A group or transaction coordinator on this node: control batches allowed, sequences not checked."""
    RAFT_LEADER = "raft leader"
    """The metadata quorum's leader: offsets and epoch are already in the batches and are kept."""


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why one record made its batch be refused; ``batch_index`` counts records in the batch from 0."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """A batch refused for what its records say; ``record_errors`` go into the ProduceResponse."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True)
class AppendResult:
    """Where an append landed.

    Attributes:
        first_offset: offset of the first record; -1 when there was nothing to append.
        last_offset: offset of the last record; -1 likewise.
        log_append_time_ms: the broker's stamp with LogAppendTime, else -1.
        log_start_offset: of the log, for the response.
        is_duplicate: the producer sent this batch before; the offsets are those of that time, nothing was written.
    """

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """One aborted transaction whose records a read_committed reader must skip, as Fetch reports it."""

    producer_id: int
    first_offset: Offset


@dataclass(frozen=True, slots=True)
class LogSlice:
    """What a read found: bytes that stay on the disk until somebody sends them.

    Attributes:
        records: from the first byte of the batch that holds the asked offset; the last batch may be cut off, the first
            never is (KIP-74). None when there is nothing below the upper bound.
        aborted_transactions: those that overlap the slice, by first offset; None when they were not asked for.
    """

    records: FileSlice | None
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None

    @property
    def size_bytes(self) -> int:
        return 0 if self.records is None else self.records.size_bytes


@dataclass(frozen=True, slots=True)
class TimestampAndOffset:
    """An answer to ListOffsets: the record's own timestamp, its offset, the leader epoch of its batch (-1: unknown)."""

    timestamp_ms: int
    offset: Offset
    leader_epoch: LeaderEpoch


class PartitionLog:
    """See the module. Attributes are read by everyone and changed only by the methods below.

    Attributes:
        topic_partition, topic_id, directory, config: as given; ``topic_id`` may be None until the owner knows it.
        log_start_offset: the first offset that readers may ask for.
        log_end_offset: the offset that the next record gets.
        high_watermark: set by the owner through `update_high_watermark`; between log start and log end.
        recovery_point: everything below is on stable storage.
    """

    topic_partition: TopicPartition
    topic_id: Uuid | None
    directory: str
    config: LogConfig
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    recovery_point: Offset

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
        on_storage_error: Callable[[StorageError], None] | None = None,
    ) -> "PartitionLog":
        """Open the log in ``directory``, making it when it is missing, and recover it unless it was closed cleanly.

        Raises:
            StorageError: the disk refused. A damaged tail is not an error: it is cut off.
        """
        raise NotImplementedError

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset that a read_committed reader may not see; at most the high watermark."""
        raise NotImplementedError

    @property
    def size_bytes(self) -> int:
        """All segments' records."""
        raise NotImplementedError

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest leader epoch that the log knows; -1 when it knows none."""
        raise NotImplementedError

    def append_as_leader(
        self, records: Buffer, *, leader_epoch: LeaderEpoch, origin: AppendOrigin = AppendOrigin.CLIENT, now_ms: int
    ) -> AppendResult:
        """Check one batch, give it offsets, write it.

        ``records`` is patched in place (base offset, leader epoch, and with LogAppendTime the timestamp and CRC) and
        must be writable for that; a read-only buffer is copied first. The bytes are not kept after the call.

        Raises:
            CorruptRecordError: the CRC, length or magic is wrong.
            RecordValidationError: INVALID_RECORD, INVALID_TIMESTAMP: with the records at fault.
            KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER,
                INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
            StorageError: the disk refused; the log is offline from here on.
        """
        raise NotImplementedError

    def append_as_follower(self, records: Buffer) -> AppendResult:
        """Write batches as the leader made them; a batch that the end of the buffer cuts off is left out.

        Raises:
            CorruptRecordError: a CRC is wrong.
            KafkaError: OFFSET_OUT_OF_RANGE when a batch starts below the log end offset or offsets go back.
            StorageError: as above.
        """
        raise NotImplementedError

    def read(
        self,
        start_offset: Offset,
        *,
        size_bytes_max: int,
        upper_bound_offset: Offset | None = None,
        at_least_one: bool = True,
        with_aborted_transactions: bool = False,
    ) -> LogSlice:
        """Return the place on disk of the records from ``start_offset``, which may lie within a batch.

        Args:
            start_offset: log_start_offset <= start_offset <= log_end_offset.
            size_bytes_max: the slice is cut here, mid-batch if need be: clients drop the partial batch at the end.
            upper_bound_offset: batches from here on are left out; the log end offset when None. High watermark for
                consumers, last stable offset for read_committed ones.
            at_least_one: make the slice as large as its first batch even if ``size_bytes_max`` is smaller.
            with_aborted_transactions: also find them in the transaction index.

        Raises:
            OffsetOutOfRangeError: ``start_offset`` is outside the log.
            StorageError: the disk refused.
        """
        raise NotImplementedError

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """Return the first record stamped ``timestamp_ms`` or later, or None. The caller bounds it by HW or LSO."""
        raise NotImplementedError

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the newest timestamp (KIP-734), or None when the log is empty."""
        raise NotImplementedError

    def offset_for_leader_epoch(self, leader_epoch: LeaderEpoch) -> OffsetAndEpoch | None:
        """Return the largest epoch <= ``leader_epoch`` that the log knows, and where it ends (KIP-101, KIP-279).

        None means that the log cannot say (UNDEFINED_EPOCH): it knows no epoch, or ``leader_epoch`` is -1 or newer
        than all it knows.
        """
        raise NotImplementedError

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch under which ``offset`` was or would be written; -1 when unknown."""
        raise NotImplementedError

    def assign_epoch_start_offset(self, leader_epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that ``leader_epoch`` starts at ``start_offset``: what a new leader does before it appends."""
        raise NotImplementedError

    def update_high_watermark(self, offset: Offset) -> Offset:
        """Set the high watermark, bounded by log start and log end; return what it is now. May go back."""
        raise NotImplementedError

    def truncate_to(self, offset: Offset) -> bool:
        """Remove records from ``offset`` on; return whether there were any."""
        raise NotImplementedError

    def truncate_fully_and_start_at(self, offset: Offset, log_start_offset: Offset | None = None) -> None:
        """Remove everything and make ``offset`` the next one."""
        raise NotImplementedError

    def delete_records_before(self, offset: Offset) -> None:
        """Raise the log start offset (DeleteRecords); segments that fall below it go with the next retention check.

        Raises:
            OffsetOutOfRangeError: ``offset`` is above the high watermark. At or below the log start it does nothing.
        """
        raise NotImplementedError

    def roll(self, now_ms: int) -> None:
        """Close the active segment, even a small one, and start another; nothing when the active one is empty."""
        raise NotImplementedError

    def flush(self) -> None:
        """Put everything appended so far on stable storage before returning."""
        raise NotImplementedError

    def flush_later(self, done: Callable[[StorageError | None], None]) -> None:
        """Put everything appended so far on stable storage; call ``done`` when ``recovery_point`` says so."""
        raise NotImplementedError

    def apply_retention(self, now_ms: int) -> list[Offset]:
        """Delete the segments that configuration no longer keeps; return their base offsets."""
        raise NotImplementedError

    def tick(self, now_ms: int) -> None:
        """Do what is due: remove files deleted long enough ago, flush by time, expire producers."""
        raise NotImplementedError

    def update_config(self, config: LogConfig) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Flush, snapshot the producers, and let go of every file: what a clean shutdown needs."""
        raise NotImplementedError

    def rename_directory(self, directory: str) -> None:
        """Move the log to ``directory`` (on the same disk); `LogManager` marks deletions so (``-delete``)."""
        raise NotImplementedError

    def delete(self) -> None:
        """Remove the log's directory and everything in it now."""
        raise NotImplementedError
