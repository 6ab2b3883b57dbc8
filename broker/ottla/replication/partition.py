"""One partition on one of its replicas' nodes: the log, who leads it, and how far it is committed.

As leader a partition appends what producers send, knows how far each follower is, moves the high watermark to the
smallest log end offset of the in-sync set, and proposes changes of that set. As follower it appends what the leader
sends and takes the leader's high watermark. Facts come in by call; what follows from them is returned, for the replica
manager to act on. Times are monotonic unless they are said to be wall time.

Where a batch's CRC is checked: by the leader when a producer sends it, by a follower before it appends it, by recovery
above the recovery point. Reads check nothing: the bytes go from the page cache to the socket. But a follower that asks
again for what it has just been sent may have refused it: the leader then reads these bytes itself, and from the first
batch that fails on it serves nothing any more, to nobody.

Source: kafka.cluster.Partition of Apache Kafka 4.3; KIP-101 (epochs), KIP-497 (AlterPartition), KIP-903 (broker
epochs), KIP-966 (minimum in-sync replicas).
"""

import logging
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.errors import CorruptRecordError, ErrorCode, KafkaError, OffsetOutOfRangeError, StorageError
from ottla.log.partition_log import AppendOrigin, AppendResult, CheckedBatch, LogSlice, PartitionLog
from ottla.metadata.topics import PartitionRegistration
from ottla.ports import Buffer
from ottla.replication.isr.isr_change import IsrChange, IsrOutcome
from ottla.replication.isr.remote_replica import Heard, RemoteReplica
from ottla.replication.peer_brokers import ANY_BROKER_EPOCH, Brokers
from ottla.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicPartition, Uuid
from ottla.wire.messages.alter_partition import AlterPartitionResponsePartitionData
from ottla.wire.records import iterate_batches

logger = logging.getLogger(__name__)

NO_LEADER: NodeId = -1

_NOT_CARRIED_OUT = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
_METADATA_WILL_SAY = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


@dataclass(slots=True, kw_only=True)
class Partition:
    """The state that the node's replica of one partition has.

    ``in_sync`` and ``replicas`` are broker ids as the controller last said; ``partition_epoch`` counts its changes to
    this partition. ``remote`` holds, on the leader, what is known of every other replica; ``pending`` the change of
    ``in_sync`` that the controller has been asked for. ``epoch_start_offset`` is where this leader's epoch began; the
    log itself learns of the epoch with its first batch, so that an election of thousands of partitions writes no file
    for each. This replica counts with the log's ``confirmable_offset``: what has to be on its disk first is.
    ``brokers`` says who is alive; ``lag_time_max_ms`` is replica.lag.time.max.ms. ``damaged_offset`` is where a batch
    begins whose CRC was found wrong on this node's disk: nothing from there on is served any more.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    node_id: NodeId
    log: PartitionLog
    brokers: Brokers = field(default_factory=Brokers)
    lag_time_max_ms: int = 30_000
    leader: NodeId = NO_LEADER
    leader_epoch: LeaderEpoch = -1
    partition_epoch: int = -1
    replicas: tuple[NodeId, ...] = ()
    in_sync: tuple[NodeId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    remote: dict[NodeId, RemoteReplica] = field(default_factory=dict)
    pending: IsrChange | None = None
    epoch_start_offset: Offset = 0
    damaged_offset: Offset | None = None

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    @property
    def maximal_in_sync(self) -> tuple[NodeId, ...]:
        """Who must have a record before it is committed: `in_sync`, and who is on its way in."""
        return self.in_sync if self.pending is None else self.pending.maximal

    @property
    def min_in_sync(self) -> int:
        """min.insync.replicas; more than there are replicas would refuse every write for ever (KIP-966)."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    # --- what the controller says

    def lead(self, registration: PartitionRegistration, *, now_ms: int) -> bool:
        """Become or stay the leader; a new epoch starts where the log ends. Return whether the epoch is new."""
        if self._is_old(registration):
            return False
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        # Who missed an epoch in between does not know what its followers did in it.
        is_new_leader = not self.is_leader or registration.leader_epoch > self.leader_epoch + 1
        self._take(registration)
        others = [replica for replica in self.replicas if replica != self.node_id]
        self.remote = {replica: self.remote.get(replica) or RemoteReplica(broker_id=replica) for replica in others}
        if is_new_epoch:
            self.epoch_start_offset = self.log.log_end_offset
            for replica in self.remote.values():
                replica.begin_epoch(
                    is_new_leader=is_new_leader,
                    is_in_sync=replica.broker_id in self.in_sync,
                    leader_end_offset=self.epoch_start_offset,
                    now_ms=now_ms,
                )
        return is_new_epoch

    def follow(self, registration: PartitionRegistration) -> bool:
        """Stop leading: somebody else does, or nobody (-1). Return whether that was news."""
        if self._is_old(registration):
            return False
        is_news = registration.leader_epoch > self.leader_epoch or registration.leader != self.leader
        self._take(registration)
        self.remote = {}
        return is_news

    def _is_old(self, registration: PartitionRegistration) -> bool:
        """The controller's answer to a proposal may come before the metadata log says the same, or older things."""
        return registration.partition_epoch < self.partition_epoch

    def _take(self, registration: PartitionRegistration) -> None:
        if registration.partition_epoch > self.partition_epoch:
            self.pending = None
        self.leader = registration.leader
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.replicas = registration.replicas
        self.in_sync = registration.isr
        self.adding_replicas = registration.adding_replicas

    # --- who may ask

    def require_leadership(self, current_leader_epoch: LeaderEpoch = -1) -> None:
        """Refuse unless this node leads, in the epoch that the client believes in (-1: it does not say).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        self.require_epoch(current_leader_epoch)
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")

    def require_epoch(self, current_leader_epoch: LeaderEpoch) -> None:
        """Refuse who believes in another leader epoch; followers serve readers too (KIP-392).

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
        """Return what the leader knows of a follower that fetches.

        Raises:
            KafkaError: the broker has no replica, as far as this leader knows (UNKNOWN_LEADER_EPOCH for who says the
                epoch, so that it asks again; else NOT_LEADER_OR_FOLLOWER), or it has been replaced by a newer
                incarnation (NOT_LEADER_OR_FOLLOWER).
        """
        replica = self.remote.get(broker_id)
        if replica is None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if current_leader_epoch < 0 else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"{self.topic_partition} has no replica on node {broker_id} that its leader knows")
        if self.brokers.is_stale(broker_id, broker_epoch):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with epoch {broker_epoch}, which a newer incarnation has replaced",
            )
        return replica

    # --- appending

    def append_as_leader(
        self, records: Buffer | CheckedBatch, *, origin: AppendOrigin, required_acks: int, wall_ms: int, now_ms: int
    ) -> AppendResult:
        """Append one batch; with acks=all only when enough replicas are in sync.

        Raises:
            KafkaError: what `require_appendable` and `PartitionLog.append_as_leader` raise.
        """
        self.require_appendable(required_acks)
        log = self.log
        end_offset = log.log_end_offset
        result = log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin, now_ms=wall_ms)
        for replica in self.remote.values():
            replica.on_leader_append(end_offset)
        self.advance_high_watermark(now_ms)
        return result

    def require_appendable(self, required_acks: int) -> None:
        """Reject an append unless this node leads and, for acks=all (-1), enough replicas are in sync.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS.
        """
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")
        if required_acks == -1 and len(self.in_sync) < self.min_in_sync:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {len(self.in_sync)} is insufficient to satisfy the min.isr requirement "
                f"of {self.log.config.min_insync_replicas} for partition {self.topic_partition}",
            )

    def append_as_follower(
        self, records: Buffer, *, high_watermark: Offset, log_start_offset: Offset, wall_ms: int
    ) -> bool:
        """Append what the leader sent, and take its watermarks; return whether readers see more or less than before.

        The high watermark is at most the leader's and at most the log end, and never goes back by itself: what was
        committed once every possible leader has. Batches of a later epoch than this replica follows are left out.

        Raises:
            CorruptRecordError: a batch fails its CRC; nothing was written.
            KafkaError: OFFSET_OUT_OF_RANGE, the batches do not come next.
            StorageError: the disk refused.
        """
        log = self.log
        if len(records):
            if log.log_end_offset == log.log_start_offset:
                self._begin_with_whole_batch(records)
            log.append_as_follower(records, now_ms=wall_ms, leader_epoch_max=self.leader_epoch)
        is_news = False
        if log_start_offset > log.log_start_offset:
            log.raise_log_start(min(log_start_offset, log.log_end_offset))
            is_news = True
        before = log.high_watermark
        if high_watermark > before:
            is_news = log.update_high_watermark(high_watermark) > before or is_news
        return is_news

    def _begin_with_whole_batch(self, records: Buffer) -> None:
        """Let an empty log that is to start within a batch, where DeleteRecords has put the start, end before it."""
        log = self.log
        first = next(iterate_batches(records), None)
        if first is None:
            return
        if first.base_offset < log.log_end_offset <= first.last_offset and first.leader_epoch <= self.leader_epoch:
            first.check_crc()
            log.truncate_fully_and_start_at(first.base_offset, log.log_start_offset)

    # --- how far it is committed

    def on_synced(self, now_ms: int) -> bool:
        """Note that the disk has more; return whether records are committed that were not before."""
        return self.is_leader and self.advance_high_watermark(now_ms)

    def is_committed(self, last_offset: Offset) -> bool:
        """Return whether every in-sync replica has the record at ``last_offset``."""
        return self.log.high_watermark > last_offset

    def is_acknowledgeable(self, last_offset: Offset, required_acks: int) -> bool:
        """Return whether enough replicas have the record at ``last_offset``, on their disks where that is configured.

        With acks=1 that is this replica alone.
        """
        if required_acks == -1:
            return self.is_committed(last_offset)
        return self.log.confirmable_offset > last_offset

    def acknowledgement_error(self, required_acks: int) -> ErrorCode:
        """Return what a produce reports once its records are acknowledgeable."""
        return self.committed_error() if required_acks == -1 else ErrorCode.NONE

    def committed_error(self) -> ErrorCode:
        """Return what an acks=all produce reports once its records are committed."""
        if len(self.maximal_in_sync) < self.min_in_sync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def advance_high_watermark(self, now_ms: int) -> bool:
        """Move the high watermark to the smallest confirmed offset of the maximal in-sync set; return whether it moved.

        A replica outside that set that is about to join it counts as well, so that it is not left behind just when it
        has caught up. Below the minimum of in-sync replicas nothing is committed (KIP-966). It never goes back here.
        """
        log = self.log
        end_offset = log.log_end_offset
        offset = log.confirmable_offset
        if self.remote:
            if len(self.in_sync) < self.min_in_sync:
                return False
            maximal = self.maximal_in_sync
            for replica in self.remote.values():
                if replica.log_end_offset < offset and (
                    replica.broker_id in maximal
                    or (
                        replica.is_caught_up(end_offset, now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms)
                        and self.brokers.may_join_isr(replica.broker_id, replica.broker_epoch)
                    )
                ):
                    offset = replica.log_end_offset
        if offset > log.high_watermark:
            log.update_high_watermark(offset)
            return True
        return False

    @property
    def low_watermark(self) -> Offset:
        """The smallest log start of the replicas that are alive: what DeleteRecords waits for."""
        starts = [
            replica.log_start_offset
            for replica in self.remote.values()
            if (broker := self.brokers.find(replica.broker_id)) is not None and not broker.is_fenced
        ]
        return min(self.log.log_start_offset, *starts) if starts else self.log.log_start_offset

    # --- followers and the in-sync set

    def on_follower_fetch(
        self,
        replica: RemoteReplica,
        *,
        offset: Offset,
        log_start_offset: Offset,
        broker_epoch: int,
        session: Heard | None,
        now_ms: int,
    ) -> bool:
        """Note how far a follower is, which asks for ``offset``; return whether more is committed now."""
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

    def propose_expansion(self, *, heard_since_ms: int, own_broker_epoch: int) -> IsrChange | None:
        """Return the change that lets the first follower in that has caught up; None when there is none, or one pends.

        It has caught up when it has everything that is committed and everything from before this leader's epoch; and it
        must have been heard of since ``heard_since_ms``, lest one that is away come and go all the time.
        """
        if self.pending is not None or len(self.in_sync) == len(self.replicas) or not self.is_leader:
            return None
        enough = max(self.log.high_watermark, self.epoch_start_offset)
        for replica in self.remote.values():
            if (
                replica.broker_id not in self.in_sync
                and replica.log_end_offset >= enough
                and replica.heard_ms >= heard_since_ms
                and self.brokers.may_join_isr(replica.broker_id, replica.broker_epoch)
            ):
                isr = (*self.in_sync, replica.broker_id)
                logger.info("%s: expanding the ISR from %s to %s", self.topic_partition, self.in_sync, isr)
                return self._propose(isr, maximal=isr, own_broker_epoch=own_broker_epoch)
        return None

    def propose_shrink(self, *, now_ms: int, own_broker_epoch: int) -> IsrChange | None:
        """Return the change that drops the followers that have been behind for too long; None likewise."""
        if self.pending is not None or len(self.in_sync) < 2 or not self.is_leader:
            return None
        end_offset = self.log.log_end_offset
        kept = tuple(
            broker_id
            for broker_id in self.in_sync
            if broker_id == self.node_id or self._is_caught_up(broker_id, end_offset, now_ms)
        )
        if kept == self.in_sync:
            return None
        behind = ", ".join(
            f"{replica.broker_id} at offset {replica.log_end_offset}"
            for replica in self.remote.values()
            if replica.broker_id in self.in_sync and replica.broker_id not in kept
        )
        logger.info(
            "%s: shrinking the ISR from %s to %s; behind the end offset %d for more than %d ms: %s",
            self.topic_partition,
            self.in_sync,
            kept,
            end_offset,
            self.lag_time_max_ms,
            behind,
        )
        return self._propose(kept, maximal=self.in_sync, own_broker_epoch=own_broker_epoch)

    def _is_caught_up(self, broker_id: NodeId, end_offset: Offset, now_ms: int) -> bool:
        replica = self.remote.get(broker_id)
        return replica is not None and replica.is_caught_up(
            end_offset, now_ms=now_ms, lag_time_max_ms=self.lag_time_max_ms
        )

    def _propose(self, isr: tuple[NodeId, ...], *, maximal: tuple[NodeId, ...], own_broker_epoch: int) -> IsrChange:
        self.pending = IsrChange(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=isr,
            broker_epochs=tuple(self._broker_epoch(broker_id, own_broker_epoch) for broker_id in isr),
            maximal=maximal,
        )
        return self.pending

    def _broker_epoch(self, broker_id: NodeId, own_broker_epoch: int) -> int:
        if broker_id == self.node_id:
            return own_broker_epoch
        replica = self.remote.get(broker_id)
        return ANY_BROKER_EPOCH if replica is None or replica.broker_epoch is None else replica.broker_epoch

    def on_isr_answer(self, change: IsrChange, answer: AlterPartitionResponsePartitionData) -> IsrOutcome:
        """Take the controller's answer to ``change``; the caller then advances the high watermark or asks again."""
        if self.pending is not change:
            return IsrOutcome.IGNORED
        if answer.error_code != ErrorCode.NONE:
            return self._on_isr_refused(change, ErrorCode(answer.error_code))
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return IsrOutcome.AWAITS_METADATA
        self.pending = None
        self.in_sync = tuple(answer.isr)
        self.partition_epoch = answer.partition_epoch
        return IsrOutcome.COMMITTED

    def _on_isr_refused(self, change: IsrChange, code: ErrorCode) -> IsrOutcome:
        if code in _NOT_CARRIED_OUT:
            self.pending = None
            logger.debug("%s: the controller refused the ISR %s: %s", self.topic_partition, change.isr, code.name)
            return IsrOutcome.REFUSED
        if code in _METADATA_WILL_SAY:
            return IsrOutcome.AWAITS_METADATA
        logger.warning("%s: asking again for the ISR %s: %s", self.topic_partition, change.isr, code.name)
        return IsrOutcome.RETRY

    # --- reading

    def read_for_consumer(
        self, start_offset: Offset, *, size_bytes_max: int, at_least_one: bool, read_committed: bool
    ) -> LogSlice:
        """Return records below the high watermark, or below the last stable offset with read_committed.

        Raises:
            OffsetOutOfRangeError: ``start_offset`` is not in the log.
            StorageError: the disk refused.
        """
        log = self.log
        bound = log.last_stable_offset if read_committed else log.high_watermark
        return log.read(
            start_offset,
            size_bytes_max=size_bytes_max,
            upper_bound_offset=bound if self.damaged_offset is None else self._sound_bound(start_offset, bound),
            at_least_one=at_least_one,
            with_aborted_transactions=read_committed,
        )

    def read_for_follower(self, start_offset: Offset, *, size_bytes_max: int, at_least_one: bool) -> LogSlice:
        """Return records up to the log end; raises as `read_for_consumer`."""
        bound = None if self.damaged_offset is None else self._sound_bound(start_offset, self.log.log_end_offset)
        return self.log.read(
            start_offset, size_bytes_max=size_bytes_max, upper_bound_offset=bound, at_least_one=at_least_one
        )

    def _sound_bound(self, start_offset: Offset, bound: Offset) -> Offset:
        """Return ``bound``, or where the damage begins; who asks for what is damaged gets CORRUPT_MESSAGE."""
        assert self.damaged_offset is not None
        if start_offset >= self.damaged_offset:
            raise CorruptRecordError(f"{self.topic_partition}: the batch at offset {self.damaged_offset} is damaged")
        return min(bound, self.damaged_offset)

    def find_damage(self, found: LogSlice, start_offset: Offset) -> bool:
        """Read the batches that a follower has refused before; return whether one of them fails its CRC here too."""
        assert found.records is not None
        damaged_offset = start_offset
        error: CorruptRecordError | None = None
        try:
            count = 0
            for batch in iterate_batches(found.records.read()):
                damaged_offset = batch.base_offset
                batch.check_crc()
                damaged_offset = batch.next_offset
                count += 1
            if count == 0:
                error = CorruptRecordError("its length is not that of a batch")
        except CorruptRecordError as caught:
            error = caught
        if error is None:
            return False
        self.damaged_offset = damaged_offset
        logger.error(
            "%s: the batch at offset %d on this leader's disk is damaged and is not served any more: %s. An in-sync "
            "replica is asked to take over; where there is none, restore the log directory or delete the records up to "
            "there",
            self.topic_partition,
            damaged_offset,
            error,
        )
        return True

    def drop_damage(self) -> None:
        """Truncate the log of a follower where its damage begins: the leader has the rest."""
        offset, self.damaged_offset = self.damaged_offset, None
        assert offset is not None
        logger.warning(
            "%s: dropping the damaged log from offset %d on; node %d, which leads it now, has it",
            self.topic_partition,
            offset,
            self.leader,
        )
        with suppress(StorageError):  # the log directory is offline then
            self.log.truncate_to(offset)

    def divergence(self, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch) -> OffsetAndEpoch | None:
        """Return where the reader's log parts from this one, None when it does not: it truncates, then reads on.

        Raises:
            OffsetOutOfRangeError: this log cannot tell, or ``fetch_offset`` is below its start.
        """
        log = self.log
        is_in_range = log.log_start_offset <= fetch_offset <= log.log_end_offset
        if is_in_range and last_fetched_epoch == self.leader_epoch and self.is_leader:
            return None  # by far the most frequent case
        end = self.end_of_epoch(last_fetched_epoch)
        if end.offset < 0 or end.epoch < 0:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: nothing is known of epoch {last_fetched_epoch}, the last one fetched"
            )
        if fetch_offset < self.log.log_start_offset:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition}: offset {fetch_offset} is below the log start {self.log.log_start_offset}"
            )
        return end if end.epoch < last_fetched_epoch or end.offset < fetch_offset else None

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Return where ``leader_epoch`` ended, (-1, -1) when the log cannot say."""
        if self.is_leader and leader_epoch >= 0:
            if leader_epoch == self.leader_epoch:
                return OffsetAndEpoch(self.log.log_end_offset, leader_epoch)
            latest = self.log.latest_epoch
            if latest <= leader_epoch < self.leader_epoch:
                return OffsetAndEpoch(self.epoch_start_offset, leader_epoch if latest < 0 else latest)
        return self.log.offset_for_leader_epoch(leader_epoch) or OffsetAndEpoch(-1, -1)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch under which ``offset`` was or would be written; -1 when unknown."""
        if self.is_leader and offset >= self.epoch_start_offset:
            return self.leader_epoch
        return self.log.epoch_for_offset(offset)
