"""Appends to a log by the leader and by followers: their origin, their result, and the checks before them."""

from enum import Enum
from typing import NamedTuple

from ottla.errors import StorageError
from ottla.log.batch_check import CheckedBatch, check_at_once, check_coordinator_batch, check_in_one_go
from ottla.log.log_state import LogState
from ottla.log.producer_state import read_marker
from ottla.log.validation import check_assigned_batches
from ottla.log.verifications import VerificationGuard
from ottla.ports import Buffer
from ottla.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from ottla.wire.records import NO_TIMESTAMP, RecordBatch, TimestampType

NO_OFFSET = -1


class AppendOrigin(Enum):
    """The source of the records that a leader appends; it decides how much is checked."""

    CLIENT = "client"
    """A producer: everything is checked."""
    COORDINATOR = "coordinator"
    """A group or transaction coordinator on this node: control batches allowed, sequences not checked."""
    RAFT_LEADER = "raft leader"
    """The metadata quorum's leader: offsets and epoch are already in the batches and are kept."""


class AppendResult(NamedTuple):
    """Offsets and timestamp of an append.

    Attributes:
        first_offset: offset of the first record; -1 when there was nothing to append.
        last_offset: offset of the last record; -1 likewise.
        log_append_time_ms: the broker's timestamp with LogAppendTime, else -1.
        log_start_offset: of the log, for the response.
        is_duplicate: the producer sent this batch before; the offsets are those of that time, nothing was written.
    """

    first_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    is_duplicate: bool = False


class AppendableLog(LogState):
    """The appends of a log. A base class, not a part, so that an append needs no further function call."""

    __slots__ = ()

    def append_as_leader(
        self,
        records: Buffer | CheckedBatch,
        *,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        now_ms: int,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Check one batch, give it offsets, write it.

        ``records`` is patched in place (base offset, leader epoch, and with LogAppendTime the timestamp and CRC) and
        must be writable for that; a read-only buffer is copied first. The bytes are not kept after the call.

        Args:
            records: one batch; from the RAFT_LEADER any number, with their final offsets and epoch. A batch that
                a CLIENT sent may have been checked before, by `check_at_once` or `check_in_steps`; one that has not is
                checked here, however long that takes.
            leader_epoch: under which they are written.
            origin: decides how much is checked.
            now_ms: wall clock, for timestamps and roll by age.
            transaction_version: under which a COORDINATOR's marker was written, see `ProducerState.check_marker`.
            requires_verification: whether the first batch of a transaction needs ``guard``.
            guard: of `start_verification`.

        Raises:
            CorruptRecordError: the CRC, length or magic is wrong (CORRUPT_MESSAGE), or the header or the records
                contradict themselves (its subclass InvalidRecordError, INVALID_RECORD).
            RecordValidationError: INVALID_RECORD, INVALID_TIMESTAMP: with the records at fault.
            KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, OUT_OF_ORDER_SEQUENCE_NUMBER,
                INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
            StorageError: an I/O error; the log is offline from then on.
        """
        if self.failure is not None:
            raise self.failure
        if not isinstance(records, CheckedBatch):
            if origin is AppendOrigin.RAFT_LEADER:
                return self._append_assigned(records, now_ms)
            config, topic_partition = self.config, self.topic_partition
            if origin is not AppendOrigin.CLIENT:
                records = check_coordinator_batch(records, config, topic_partition)
            elif (checked := check_at_once(records, config, topic_partition, now_ms)) is not None:
                records = checked
            else:
                records = check_in_one_go(records, config, topic_partition, now_ms, self._clock)
        batch = records.batch
        if batch.producer_id >= 0:
            duplicate = self._check_producer(batch, origin, transaction_version)
            if duplicate is not None:
                return duplicate
            is_transactional = batch.is_transactional and not batch.is_control
            if (
                requires_verification
                and is_transactional
                and not self.has_open_transaction(batch.producer_id, batch.producer_epoch)
            ):
                self._local.producers.verifications.require_guard(batch, guard)
        return self._append_checked(records, leader_epoch, now_ms)

    def start_verification(
        self, producer_id: ProducerId, *, producer_epoch: ProducerEpoch, sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """Return the guard that the first batch of a transaction needs; None if the transaction has batches here.

        Args:
            producer_id: of the transaction.
            producer_epoch: of the transaction.
            sequence: of the batch; -1 for one of a coordinator.
            supports_epoch_bump: see `VerificationGuard`.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH: the producer is fenced.
        """
        producers = self._local.producers
        producers.require_epoch(producer_id, producer_epoch, offset=self.log_end_offset)
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        return producers.verifications.start(
            producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            supports_epoch_bump=supports_epoch_bump,
            now_ms=self._clock.wall_ms(),
        )

    def end_verification(self, producer_id: ProducerId) -> None:
        """Remove the guard of a producer that was rejected: clients could invent any number of producer ids."""
        self._local.producers.verifications.end(producer_id)

    def has_open_transaction(self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
        """Return whether the producer's transaction has batches here, and no marker."""
        entry = self._local.producers.producers.get(producer_id)
        if entry is None or entry.producer_epoch != producer_epoch:
            return False
        return entry.current_transaction_first_offset != NO_OFFSET

    def _check_producer(
        self, batch: RecordBatch, origin: AppendOrigin, transaction_version: int
    ) -> AppendResult | None:
        """Reject a batch that the producer's state does not allow; return the earlier result of a duplicate."""
        producers = self._local.producers
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None:
                offset = self.log_end_offset
                producers.check_marker(batch, marker, offset=offset, transaction_version=transaction_version)
            return None
        is_client = origin is AppendOrigin.CLIENT
        if is_client:
            known = producers.find_duplicate(batch)
            if known is not None:
                # Kafka returns the batch's timestamp here whatever its type.
                start_offset = self.log_start_offset
                return AppendResult(known.first_offset, known.last_offset, known.timestamp_ms, start_offset, True)
        producers.check_data(batch, offset=self.log_end_offset, check_sequence=is_client)
        return None

    def _append_checked(self, checked: CheckedBatch, leader_epoch: LeaderEpoch, now_ms: int) -> AppendResult:
        """Assign offset and epoch to a valid batch and write it."""
        config, batch = self.config, checked.batch
        append_time_ms = NO_TIMESTAMP
        if config.message_timestamp_type == "LogAppendTime":
            append_time_ms = now_ms
            batch.set_max_timestamp(TimestampType.LOG_APPEND_TIME, now_ms)
        else:
            batch.set_max_timestamp(TimestampType.CREATE_TIME, checked.newest_timestamp_ms)
        if self.awaited_checkpoint is not None:
            self._write_awaited_checkpoint(self.awaited_checkpoint)
        base_offset = self.log_end_offset
        batch.patch(base_offset, leader_epoch)
        try:
            self._local.append(batch, config, now_ms)
        except StorageError as error:
            self._fail(error)
        return AppendResult(base_offset, batch.last_offset, append_time_ms, self.log_start_offset)

    def append_as_follower(
        self, records: Buffer, *, now_ms: int | None = None, leader_epoch_max: LeaderEpoch | None = None
    ) -> AppendResult:
        """Write batches as the leader wrote them; a partial batch at the end of the buffer is skipped.

        Args:
            records: as fetched, from a batch that starts at or above the log end offset on.
            now_ms: wall clock for the roll by age; read from the clock when None.
            leader_epoch_max: the leader epoch that the follower knows: batches of later ones are skipped. None: all.

        Raises:
            CorruptRecordError: a CRC is wrong.
            KafkaError: OFFSET_OUT_OF_RANGE when a batch starts below the log end offset or offsets go back.
            StorageError: as above.
        """
        if self.failure is not None:
            raise self.failure
        return self._append_assigned(records, self._clock.wall_ms() if now_ms is None else now_ms, leader_epoch_max)

    def _append_assigned(
        self, records: Buffer, now_ms: int, leader_epoch_max: LeaderEpoch | None = None
    ) -> AppendResult:
        """Write whole batches that have their offsets and epochs."""
        batches = check_assigned_batches(records, self.log_end_offset, self.topic_partition, leader_epoch_max)
        if not batches:
            return AppendResult(NO_OFFSET, NO_OFFSET, NO_TIMESTAMP, self.log_start_offset)
        if self.awaited_checkpoint is not None:
            self._write_awaited_checkpoint(self.awaited_checkpoint)
        size_bytes = batches[-1].end_position
        try:
            if size_bytes <= self.config.segment_bytes:
                self._local.append_all(batches, memoryview(records)[:size_bytes], self.config, now_ms)
            else:
                # More than one segment can hold: each batch may roll a new one.
                for batch in batches:
                    self._local.append_all([batch], batch.data, self.config, now_ms)
        except StorageError as error:
            self._fail(error)
        return AppendResult(batches[0].base_offset, batches[-1].last_offset, NO_TIMESTAMP, self.log_start_offset)
