"""`ReplicatedCoordinatorLog`: a coordinator's internal topic on the node's own replicas.

Source: CoordinatorPartitionWriter and CoordinatorLoaderImpl of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterator
from typing import Final, Protocol, TypeAlias

from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import CorruptRecordError, ErrorCode
from ottla.log.partition_log import PartitionLog
from ottla.log.verifications import VerificationGuard
from ottla.purgatory import Delayed
from ottla.types import Offset, TopicPartition
from ottla.wire.records import RecordBatch, iterate_batches

_READ_SIZE_BYTES: Final = 1024 * 1024

VerifyTransaction: TypeAlias = Callable[[TopicPartition, TransactionalProducer, int], Delayed[Verification]]
"""See `CoordinatorLog.verify_transaction`; its last argument is the version of TxnOffsetCommit."""


class CoordinatorReplica(Protocol):
    """A replica on this node: `replication.partition.Partition`."""

    @property
    def log(self) -> PartitionLog: ...

    @property
    def is_leader(self) -> bool: ...


class CoordinatorReplicas(Protocol):
    """The replicas of this node: `replication.replica_manager.ReplicaManager`, which is in a layer above."""

    def find(self, topic: str, partition: int) -> CoordinatorReplica | None:
        """Return the replica, its log created if need be; None when there is none, or its disk has failed."""

    def is_yet_to_be_created(self, topic_partition: TopicPartition) -> bool:
        """Return whether the metadata gives the partition to this node and its log has not been created yet."""

    def append_committed(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        transaction_version: int = 0,
        requires_verification: bool = False,
        guard: VerificationGuard | None = None,
    ) -> Delayed[ErrorCode]:
        """Append a batch with acks=all; complete with NONE once it is committed."""

    def is_leadership_confirmed(self, topic_partition: TopicPartition) -> bool:
        """Return whether this node leads the partition, and its in-sync followers have confirmed that lately."""

    def on_log_start_raised(self, topic_partition: TopicPartition) -> None:
        """Let the followers delete as well."""


class ReplicatedCoordinatorLog:
    """`CoordinatorLog` of the internal topic ``topic_name``.

    ``verifier`` returns the function that verifies transactional batches now; None for batches to be appended
    unverified, as in Kafka with ``transaction.partition.verification.enable=false``, which may change at any time.
    """

    def __init__(
        self,
        topic_name: str,
        replicas: CoordinatorReplicas,
        verifier: Callable[[], VerifyTransaction | None] = lambda: None,
    ) -> None:
        self.topic_name = topic_name
        self._replicas = replicas
        self._verifier = verifier

    def append(
        self, partition: int, batch: bytes, *, transaction_version: int = 0, guard: VerificationGuard | None = None
    ) -> Delayed[ErrorCode]:
        topic_partition = TopicPartition(self.topic_name, partition)
        return self._replicas.append_committed(
            topic_partition,
            batch,
            transaction_version=transaction_version,
            requires_verification=self._verifier() is not None and _is_transactional_data(batch),
            guard=guard,
        )

    def verify_transaction(
        self, partition: int, producer: TransactionalProducer, api_version: int
    ) -> Delayed[Verification]:
        verify = self._verifier()
        if verify is None:
            return Delayed.of(Verification())
        return verify(TopicPartition(self.topic_name, partition), producer, api_version)

    def is_leadership_confirmed(self, partition: int) -> bool:
        return self._replicas.is_leadership_confirmed(TopicPartition(self.topic_name, partition))

    def end_offset(self, partition: int) -> Offset:
        replica = self._replicas.find(self.topic_name, partition)
        return 0 if replica is None else replica.log.log_end_offset

    def delete_before(self, partition: int, offset: Offset) -> None:
        replica = self._replicas.find(self.topic_name, partition)
        if replica is None or not replica.is_leader or offset > replica.log.high_watermark:
            return
        replica.log.delete_records_before(offset)
        self._replicas.on_log_start_raised(TopicPartition(self.topic_name, partition))

    def read_again(self, partition: int) -> Iterator[RecordBatch] | None:
        replica = self._replicas.find(self.topic_name, partition)
        if replica is None or not replica.is_leader:
            return None
        return _all_batches(replica.log)

    def read_at_election(self, partition: int) -> Iterator[RecordBatch] | None:
        """Return what is in the log of a partition that this node has just become leader of.

        None when its disk has failed.
        """
        if self._replicas.is_yet_to_be_created(TopicPartition(self.topic_name, partition)):
            # `find` would create the log: the fifty logs of a new topic at once stop the loop for a tenth of a second.
            return iter(())
        replica = self._replicas.find(self.topic_name, partition)
        return None if replica is None else _all_batches(replica.log)


def _is_transactional_data(batch: bytes) -> bool:
    header = RecordBatch(batch, 0)
    return header.is_transactional and not header.is_control


def _all_batches(log: PartitionLog) -> Iterator[RecordBatch]:
    return batches_between(log, log.log_start_offset, log.log_end_offset)


BATCH_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Real ones are far below a megabyte; a flipped bit of the length must not read a whole segment into memory."""


def batches_between(log: PartitionLog, start: Offset, end: Offset) -> Iterator[RecordBatch]:
    """Yield the whole batches from ``start`` up to ``end``, a megabyte read at a time.

    Raises:
        KafkaError: the log no longer has them, or its disk has failed. A CorruptRecordError if length or offsets of a
            batch, by which the next one is found, are corrupt; the CRC does not cover them.
    """
    while start < end:
        first = start
        found = log.read(start, size_bytes_max=_READ_SIZE_BYTES, upper_bound_offset=end).records
        if found is None:
            return
        if found.size_bytes > BATCH_SIZE_BYTES_MAX:
            raise CorruptRecordError(f"the batch at offset {start} says that it has {found.size_bytes} bytes or more")
        for batch in iterate_batches(bytearray(found.read())):
            is_next = batch.base_offset >= start or start == first
            if not is_next or not start <= batch.last_offset < end:
                raise CorruptRecordError(f"{batch} comes after offset {start - 1}, and the log ends at {end}")
            yield batch
            start = batch.next_offset
        if start == first:
            raise CorruptRecordError(f"the batch at offset {start} says that it ends after the log does")
