"""One partition on one of its replicas' nodes: the log, its leader, and the high watermark.

As leader a partition appends what producers send, and moves the high watermark to the smallest log end offset of the
ISR, which `PartitionIsr` keeps. As follower it appends what the leader sends and takes the leader's high watermark.
Facts arrive by calls; their effects are returned, for the replica manager to act on. Times are monotonic unless they
are called wall time.

A batch's CRC is checked by the leader when a producer sends it, by a follower before it appends it, and by recovery
above the recovery point. Reads check nothing: the bytes go from the page cache to the socket. But a follower that
fetches the same records again may have rejected them: the leader then reads and checks these bytes itself, and serves
nothing from the first batch that fails on, neither to consumers nor to followers.

Source: kafka.cluster.Partition of Apache Kafka 4.3; KIP-101 (epochs), KIP-497 (AlterPartition), KIP-903 (broker
epochs), KIP-966 (minimum in-sync replicas).
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError, OffsetOutOfRangeError, StorageError
from ottla.log.partition_log import AppendOrigin, AppendResult, CheckedBatch, LogSlice, PartitionLog
from ottla.log.verifications import VerificationGuard
from ottla.metadata.topics import PartitionRegistration
from ottla.ports import Buffer
from ottla.replication.isr.partition_isr import PartitionIsr
from ottla.replication.isr.remote_replica import FetchActivity, RemoteReplica
from ottla.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicPartition, Uuid
from ottla.wire.records import iterate_batches

logger = logging.getLogger(__name__)

NO_LEADER: NodeId = -1


@dataclass(slots=True, kw_only=True)
class Partition:
    """The state of the node's replica of one partition.

    ``isr`` has the in-sync replicas, and the leader's knowledge of them. This replica counts with the log's
    ``confirmable_offset``: up to there everything is on its disk that has to be. ``corrupt_offset`` is the start of a
    batch with a wrong CRC on this node's disk: nothing from there on is served any more.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    node_id: NodeId
    log: PartitionLog
    isr: PartitionIsr
    leader: NodeId = NO_LEADER
    leader_epoch: LeaderEpoch = -1
    corrupt_offset: Offset | None = None

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def min_in_sync(self) -> int:
        """min.insync.replicas; a value above the number of replicas would reject every write for ever (KIP-966)."""
        return min(self.log.config.min_insync_replicas, len(self.isr.replicas))

    # --- roles, by the metadata

    def lead(self, registration: PartitionRegistration, *, now_ms: int) -> bool:
        """Become or stay the leader; a new epoch starts at the log end. Return whether the epoch is new."""
        if self.isr.is_old(registration):
            return False
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        # A leader that missed an epoch in between does not know the progress of its followers in it.
        is_new_leader = not self.is_leader or registration.leader_epoch > self.leader_epoch + 1
        self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
        self.isr.on_leading(
            registration,
            is_new_epoch=is_new_epoch,
            is_new_leader=is_new_leader,
            end_offset=self.log.log_end_offset,
            now_ms=now_ms,
        )
        return is_new_epoch

    def follow(self, registration: PartitionRegistration) -> bool:
        """Stop leading: another node leads, or none (-1). Return whether that changes anything."""
        if self.isr.is_old(registration):
            return False
        is_changed = registration.leader_epoch > self.leader_epoch or registration.leader != self.leader
        self.leader, self.leader_epoch = registration.leader, registration.leader_epoch
        self.isr.on_following(registration)
        return is_changed

    def stop(self) -> None:
        """Stop leading or following: the replica is removed, or its disk failed."""
        self.leader = NO_LEADER
        self.isr.on_stopped()

    # --- validation of requests

    def require_leadership(self, current_leader_epoch: LeaderEpoch = -1) -> None:
        """Reject a request unless this node leads, in the client's leader epoch (-1: it has none).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        self.require_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")

    def require_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Reject a request with another leader epoch; followers serve consumers too (KIP-392).

        Raises:
            KafkaError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is in leader epoch {self.leader_epoch}, the request in {current_leader_epoch}",
            )

    def remote_replica(self, broker_id: NodeId, broker_epoch: int, current_leader_epoch: LeaderEpoch) -> RemoteReplica:
        """Return the state of a follower that fetches.

        Raises:
            KafkaError: the broker has no replica, as far as this leader knows (UNKNOWN_LEADER_EPOCH for a request with
                a leader epoch, so that it retries; else NOT_LEADER_OR_FOLLOWER), or it has been replaced by a newer
                incarnation (NOT_LEADER_OR_FOLLOWER).
        """
        replica = self.isr.remote.get(broker_id)
        if replica is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"{self.topic_partition} has no replica on node {broker_id} that its leader knows")
        if self.isr.brokers.is_stale(broker_id, broker_epoch):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with epoch {broker_epoch}, which a newer incarnation has replaced",
            )
        return replica

    # --- append

    def append_as_leader(
        self,
        records: Buffer | CheckedBatch,
        *,
        origin: AppendOrigin,
        required_acks: int,
        wall_ms: int,
        now_ms: int,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> AppendResult:
        """Append one batch; with acks=all only when enough replicas are in sync.

        Raises:
            KafkaError: the errors of `require_appendable` and `PartitionLog.append_as_leader`.
        """
        self.require_appendable(required_acks)
        log = self.log
        end_offset = log.log_end_offset
        result = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            origin=origin,
            now_ms=wall_ms,
            transaction_version=transaction_version,
            requires_verification=requires_verification,
            guard=guard,
        )
        self.isr.on_leader_append(end_offset)
        self.advance_high_watermark(now_ms)
        return result

    def require_appendable(self, required_acks: int) -> None:
        """Reject an append unless this node leads and, for acks=all (-1), enough replicas are in sync.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS.
        """
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")
        if required_acks == -1 and len(self.isr.in_sync) < self.min_in_sync:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {len(self.isr.in_sync)} is insufficient to satisfy the min.isr "
                f"requirement of {self.log.config.min_insync_replicas} for partition {self.topic_partition}",
            )

    def append_as_follower(
        self, records: Buffer, *, high_watermark: Offset, log_start_offset: Offset, wall_ms: int
    ) -> bool:
        """Append the leader's records, and take its watermarks; return whether consumers can read more, or less.

        The high watermark is at most the leader's and at most the log end, and never goes back by itself: every
        possible leader has the records that were committed once. Batches of a later epoch than this replica follows are
        left out.

        Raises:
            CorruptRecordError: a batch fails its CRC; nothing was written.
            KafkaError: OFFSET_OUT_OF_RANGE, the batches do not continue at the log end.
            StorageError: the disk failed.
        """
        log = self.log
        is_changed = False
        if len(records):
            if log.log_start_offset < log.log_end_offset <= log_start_offset:
                # All that is left of a log that has diverged is deleted at the leader.
                log.raise_log_start(log.log_end_offset)
                is_changed = True
            if log.log_end_offset == log.log_start_offset:
                self._start_with_whole_batch(records)
            log.append_as_follower(records, now_ms=wall_ms, leader_epoch_max=self.leader_epoch)
        if log_start_offset > log.log_start_offset:
            log.raise_log_start(min(log_start_offset, log.log_end_offset))
            is_changed = True
        before = log.high_watermark
        if high_watermark > before:
            is_changed = log.update_high_watermark(high_watermark) > before or is_changed
        return is_changed

    def _start_with_whole_batch(self, records: Buffer) -> None:
        """Move the end of an empty log, which DeleteRecords has put within a batch, to the start of that batch."""
        log = self.log
        first = next(iterate_batches(records), None)
        if first is None:
            return
        if first.base_offset < log.log_end_offset <= first.last_offset and first.leader_epoch <= self.leader_epoch:
            first.check_crc()
            log.truncate_fully_and_start_at(first.base_offset, log.log_start_offset)

    # --- commit

    def on_synced(self, now_ms: int) -> bool:
        """Note that more is on the disk; return whether more is committed."""
        return self.is_leader and self.advance_high_watermark(now_ms)

    def is_committed(self, last_offset: Offset) -> bool:
        """Return whether every in-sync replica has the record at ``last_offset``."""
        return self.log.high_watermark > last_offset

    def is_acknowledgeable(self, last_offset: Offset, required_acks: int) -> bool:
        """Return whether enough replicas have the record at ``last_offset``, on their disks if so configured.

        With acks=1 that is this replica alone.
        """
        if required_acks == -1:
            return self.is_committed(last_offset)
        return self.log.confirmable_offset > last_offset

    def acknowledgement_error(self, required_acks: int) -> ErrorCode:
        """Return the error of a produce whose records are acknowledgeable."""
        return self.committed_error() if required_acks == -1 else ErrorCode.NONE

    def committed_error(self) -> ErrorCode:
        """Return the error of an acks=all produce whose records are committed."""
        if len(self.isr.maximal) < self.min_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark up to the confirmed offset of the ISR; return whether it moved."""
        log = self.log
        offset = log.confirmable_offset
        isr = self.isr
        if isr.remote:
            committable = isr.committable_offset(
                offset, end_offset=log.log_end_offset, min_in_sync=self.min_in_sync, now_ms=now_ms
            )
            if committable is None:
                return False
            offset = committable
        if offset > log.high_watermark:
            log.update_high_watermark(offset)
            return True
        return False

    @property
    def low_watermark(self) -> Offset:
        """The smallest log start of the replicas that are alive: what DeleteRecords waits for."""
        starts = [
            replica.log_start_offset
            for replica in self.isr.remote.values()
            if (broker := self.isr.brokers.find(replica.broker_id)) is not None and not broker.is_fenced
        ]
        return min(self.log.log_start_offset, *starts) if starts else self.log.log_start_offset

    # --- followers

    def on_follower_fetch(
        self,
        replica: RemoteReplica,
        *,
        offset: Offset,
        log_start_offset: Offset,
        broker_epoch: int,
        session: FetchActivity | None,
        now_ms: int,
    ) -> bool:
        """Record the log end of a follower that fetches at ``offset``; return whether more is committed now."""
        before = replica.log_end_offset
        replica.on_fetch(
            offset=offset,
            log_start_offset=log_start_offset,
            leader_end_offset=self.log.log_end_offset,
            broker_epoch=broker_epoch,
            session=session,
            now_ms=now_ms,
        )
        return offset != before and self.advance_high_watermark(now_ms)

    # --- reads

    def read_for_consumer(
        self, start_offset: Offset, *, size_bytes_max: int, at_least_one: bool, read_committed: bool
    ) -> LogSlice:
        """Return records below the high watermark, or below the last stable offset with read_committed.

        Raises:
            OffsetOutOfRangeError: ``start_offset`` is not in the log.
            StorageError: the disk failed.
        """
        log = self.log
        bound = log.last_stable_offset if read_committed else log.high_watermark
        return log.read(
            start_offset,
            size_bytes_max=size_bytes_max,
            upper_bound_offset=bound
            if self.corrupt_offset is None
            else self._bound_below_corruption(start_offset, bound),
            at_least_one=at_least_one,
            with_aborted_transactions=read_committed,
        )

    def read_for_follower(self, start_offset: Offset, *, size_bytes_max: int, at_least_one: bool) -> LogSlice:
        """Return records up to the log end; raises as `read_for_consumer`."""
        bound = (
            None if self.corrupt_offset is None else self._bound_below_corruption(start_offset, self.log.log_end_offset)
        )
        return self.log.read(
            start_offset, size_bytes_max=size_bytes_max, upper_bound_offset=bound, at_least_one=at_least_one
        )

    def _bound_below_corruption(self, start_offset: Offset, bound: Offset) -> Offset:
        """Return ``bound``, or the corrupt offset if that is smaller; raise for a read of corrupt records."""
        assert self.corrupt_offset is not None
        if start_offset >= self.corrupt_offset:
            raise CorruptRecordError(f"{self.topic_partition}: the batch at offset {self.corrupt_offset} is corrupt")
        return min(bound, self.corrupt_offset)

    def find_corruption(self, found: LogSlice, start_offset: Offset) -> bool:
        """Read the batches that a follower may have rejected; return whether one of them fails its CRC here too."""
        assert found.records is not None
        corrupt_offset = start_offset
        error: CorruptRecordError | None = None
        try:
            count = 0
            for batch in iterate_batches(found.records.read()):
                corrupt_offset = batch.base_offset
                batch.check_crc()
                corrupt_offset = batch.next_offset
                count += 1
            if count == 0:
                error = CorruptRecordError("its length is not that of a batch")
        except CorruptRecordError as caught:
            error = caught
        if error is None:
            return False
        self.corrupt_offset = corrupt_offset
        logger.error(
            "%s: the batch at offset %d on this leader's disk is corrupt and is not served any more: %s. An in-sync "
            "replica is requested to take over; if there is none, restore the log directory or delete the records up "
            "to that offset",
            self.topic_partition,
            corrupt_offset,
            error,
        )
        return True

    def truncate_corruption(self) -> None:
        """Truncate the log of a follower at its corrupt offset: the leader has the rest."""
        offset, self.corrupt_offset = self.corrupt_offset, None
        assert offset is not None
        logger.warning(
            "%s: truncating the corrupt log at offset %d; node %d, which leads it now, has the rest",
            self.topic_partition,
            offset,
            self.leader,
        )
        with suppress(StorageError):  # the log directory is offline then
            self.log.truncate_to(offset)

    def divergence(self, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> OffsetAndEpoch | None:
        """Return the point at which the reader's log diverges from this one, and to which it truncates, or None.

        Raises:
            OffsetOutOfRangeError: this log does not know the epoch, or ``fetch_offset`` is below its start.
        """
        log = self.log
        is_in_range = log.log_start_offset <= fetch_offset <= log.log_end_offset
        if is_in_range and last_fetched_epoch == self.leader_epoch and self.is_leader:
            return None  # by far the most frequent case
        end = self.end_of_epoch(last_fetched_epoch)
        if end.offset < 0 or end.epoch < 0:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: no entry for epoch {last_fetched_epoch}, the last one fetched"
            )
        if fetch_offset < self.log.log_start_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {fetch_offset} is below the log start {self.log.log_start_offset}"
            )
        return end if end.epoch < last_fetched_epoch or end.offset < fetch_offset else None

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Return the end of ``leader_epoch``, (-1, -1) when the log does not know it."""
        if self.is_leader and leader_epoch >= 0:
            if leader_epoch == self.leader_epoch:
                return OffsetAndEpoch(self.log.log_end_offset, leader_epoch)
            latest = self.log.latest_epoch
            if latest <= leader_epoch < self.leader_epoch:
                return OffsetAndEpoch(self.isr.epoch_start_offset, leader_epoch if latest < 0 else latest)
        return self.log.offset_for_leader_epoch(leader_epoch) or OffsetAndEpoch(-1, -1)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch under which ``offset`` was or would be written; -1 when unknown."""
        if self.is_leader and offset >= self.isr.epoch_start_offset:
            return self.leader_epoch
        return self.log.epoch_for_offset(offset)
