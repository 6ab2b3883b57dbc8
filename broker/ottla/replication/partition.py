"""One partition on one of its replicas' nodes: the log, who leads it, and how far it is committed.

As leader a partition appends what producers send and moves the high watermark to the smallest log end offset of the
in-sync set. Source: kafka.cluster.Partition of Apache Kafka 4.3; KIP-101 (epochs), KIP-966 (minimum in-sync replicas).
"""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode, KafkaError
from ottla.log.partition_log import AppendOrigin, AppendResult, LogSlice, PartitionLog
from ottla.ports import Buffer
from ottla.types import LeaderEpoch, NodeId, Offset, OffsetAndEpoch, TopicPartition, Uuid

NO_LEADER: NodeId = -1


@dataclass(slots=True, kw_only=True)
class Partition:
    """The state that the node's replica of one partition has.

    ``in_sync`` and ``replicas`` are broker ids as the metadata log says; ``partition_epoch`` counts the metadata's
    changes to this partition. ``follower_end_offsets`` holds, on the leader, the log end offset of every other replica.
    ``epoch_start_offset`` is where this leader's epoch began; the log itself learns of the epoch with its first batch,
    so that an election of thousands of partitions writes no file for each. With ``syncs_before_commit``
    (ottla.acks.fsync) the high watermark waits for this replica's disk as well.
    """

    topic_partition: TopicPartition
    topic_id: Uuid
    node_id: NodeId
    log: PartitionLog
    leader: NodeId = NO_LEADER
    leader_epoch: LeaderEpoch = -1
    partition_epoch: int = -1
    replicas: tuple[NodeId, ...] = ()
    in_sync: tuple[NodeId, ...] = ()
    follower_end_offsets: dict[NodeId, Offset] = field(default_factory=dict)
    epoch_start_offset: Offset = 0
    syncs_before_commit: bool = False

    @property
    def is_leader(self) -> bool:
        return self.leader == self.node_id

    def lead(
        self,
        *,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        in_sync: tuple[NodeId, ...],
    ) -> None:
        """Become or stay the leader; a new epoch starts where the log ends."""
        self.leader = self.node_id
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.in_sync = in_sync
        if leader_epoch > self.leader_epoch:
            self.leader_epoch = leader_epoch
            self.epoch_start_offset = self.log.log_end_offset
            self.follower_end_offsets = {replica: -1 for replica in replicas if replica != self.node_id}
        self._advance_high_watermark()

    def follow(
        self,
        *,
        leader: NodeId,
        leader_epoch: LeaderEpoch,
        partition_epoch: int,
        replicas: tuple[NodeId, ...],
        in_sync: tuple[NodeId, ...],
    ) -> None:
        """Stop leading: ``leader`` does, or nobody when it is -1."""
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas = replicas
        self.in_sync = in_sync
        self.follower_end_offsets = {}

    def require_leadership(self, current_leader_epoch: LeaderEpoch = -1) -> None:
        """Refuse unless this node leads, in the epoch that the client believes in (-1: it does not say).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER; FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH (KIP-320).
        """
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")
        if current_leader_epoch >= 0 and current_leader_epoch != self.leader_epoch:
            is_old = current_leader_epoch < self.leader_epoch
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self.topic_partition} is in leader epoch {self.leader_epoch}, the request in {current_leader_epoch}",
            )

    def append_as_leader(
        self, records: Buffer, *, origin: AppendOrigin, required_acks: int, now_ms: int
    ) -> AppendResult:
        """Append one batch; with acks=all only when enough replicas are in sync.

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, and what `PartitionLog.append_as_leader` raises.
        """
        if self.leader != self.node_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.topic_partition} is led by node {self.leader}")
        if required_acks == -1 and len(self.in_sync) < self._min_in_sync():
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {len(self.in_sync)} is insufficient to satisfy the min.isr requirement "
                f"of {self.log.config.min_insync_replicas} for partition {self.topic_partition}",
            )
        result = self.log.append_as_leader(records, leader_epoch=self.leader_epoch, origin=origin, now_ms=now_ms)
        self._advance_high_watermark()
        return result

    def on_synced(self) -> bool:
        """Note that the disk has more; return whether records are committed that were not before."""
        before = self.log.high_watermark
        if self.is_leader:
            self._advance_high_watermark()
        return self.log.high_watermark > before

    def is_committed(self, last_offset: Offset) -> bool:
        """Return whether every in-sync replica has the record at ``last_offset``."""
        return self.log.high_watermark > last_offset

    def committed_error(self) -> ErrorCode:
        """Return what an acks=all produce reports once its records are committed."""
        if len(self.in_sync) < self._min_in_sync():
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def read_for_consumer(
        self, start_offset: Offset, *, size_bytes_max: int, at_least_one: bool, read_committed: bool
    ) -> LogSlice:
        """Return records below the high watermark, or below the last stable offset with read_committed.

        Raises:
            OffsetOutOfRangeError: ``start_offset`` is not in the log.
            StorageError: the disk refused.
        """
        log = self.log
        return log.read(
            start_offset,
            size_bytes_max=size_bytes_max,
            upper_bound_offset=log.last_stable_offset if read_committed else log.high_watermark,
            at_least_one=at_least_one,
            with_aborted_transactions=read_committed,
        )

    def end_of_epoch(self, leader_epoch: LeaderEpoch) -> OffsetAndEpoch:
        """Return where ``leader_epoch`` ended, (-1, -1) when the log cannot say."""
        if self.is_leader:
            if leader_epoch == self.leader_epoch:
                return OffsetAndEpoch(self.log.log_end_offset, leader_epoch)
            latest = self.log.latest_epoch
            if 0 <= latest <= leader_epoch < self.leader_epoch:
                return OffsetAndEpoch(self.epoch_start_offset, latest)
        return self.log.offset_for_leader_epoch(leader_epoch) or OffsetAndEpoch(-1, -1)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch under which ``offset`` was or would be written; -1 when unknown."""
        if self.is_leader and offset >= self.epoch_start_offset:
            return self.leader_epoch
        return self.log.epoch_for_offset(offset)

    def _min_in_sync(self) -> int:
        # More than there are replicas would refuse every write for ever (KIP-966).
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def _advance_high_watermark(self) -> None:
        """Move the high watermark to the smallest log end offset of the in-sync set; it never goes back here."""
        offset = self.log.recovery_point if self.syncs_before_commit else self.log.log_end_offset
        if len(self.in_sync) > 1:
            offset = min(offset, *(self.follower_end_offsets[peer] for peer in self.in_sync if peer != self.node_id))
        if offset > self.log.high_watermark:
            self.log.update_high_watermark(offset)
