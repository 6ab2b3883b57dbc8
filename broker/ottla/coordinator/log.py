"""`CoordinatorLog`: the partitions of a coordinator's internal topic, as the coordinator reads and writes them.

Source: PartitionWriter and CoordinatorLoader of Apache Kafka's coordinator-common.
"""

from collections.abc import Iterable
from typing import Protocol

from ottla.coordinator.transactions import TransactionalProducer, Verification
from ottla.errors import ErrorCode
from ottla.log.verifications import VerificationGuard
from ottla.purgatory import Delayed
from ottla.types import Offset
from ottla.wire.records import RecordBatch


class CoordinatorLog(Protocol):
    """Appends as the leader with ``acks=all``, and reads the log again after a lost write.

    The log's content at an election is not read here: the publisher hands those batches to the coordinator.
    """

    def append(
        self, partition: int, batch: bytes, *, transaction_version: int = 0, guard: VerificationGuard | None = None
    ) -> Delayed[ErrorCode]:
        """Append one record batch (magic 2, base offset 0) to ``partition`` of the internal topic.

        Args:
            partition: of the internal topic.
            batch: its bytes.
            transaction_version: under which a marker was decided, see `TransactionEnd`.
            guard: of the verification, for the first batch of a transaction.

        Returns:
            NONE once the high watermark is above the batch. An error that is there at once (NOT_LEADER_OR_FOLLOWER,
            NOT_ENOUGH_REPLICAS, RECORD_LIST_TOO_LARGE, MESSAGE_TOO_LARGE, KAFKA_STORAGE_ERROR, ...) means that nothing
            was written. One that comes later means that the batch may or may not stay in the log: the coordinator then
            stops serving the partition until it has loaded the log again.
        """

    def verify_transaction(
        self, partition: int, producer: TransactionalProducer, api_version: int
    ) -> Delayed[Verification]:
        """Verify that the producer's transaction is open and has ``partition``, before a batch of it is appended.

        ``api_version`` of the TxnOffsetCommit: from version 5 on, the partition is added to the transaction if need be.
        """

    def is_leadership_confirmed(self, partition: int) -> bool:
        """Return whether the followers of a partition that this node leads have lately confirmed that it does."""

    def end_offset(self, partition: int) -> Offset:
        """Return the offset of the next record of a partition that this node leads."""

    def delete_before(self, partition: int, offset: Offset) -> None:
        """Delete the records before ``offset`` from a partition, on all replicas; nothing if that cannot be done now.

        ``offset`` is committed.
        """

    def read_again(self, partition: int) -> Iterable[RecordBatch] | None:
        """Return everything in the log of a partition that this node leads; None when it does not lead it."""
