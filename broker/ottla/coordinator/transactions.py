"""Transactions as the internal topic of a coordinator sees them: the producer of a write, and the end marker.

Source: PartitionWriter, VerificationGuard and EndTransactionMarker of Apache Kafka 4.3; KIP-98, KIP-890.
"""

from typing import Final, NamedTuple

from ottla.errors import ErrorCode
from ottla.log.verifications import VerificationGuard
from ottla.types import ProducerEpoch, ProducerId
from ottla.wire.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ControlRecordType,
    build_end_transaction_marker,
)


class TransactionalProducer(NamedTuple):
    """The producer in whose open transaction records are written; ``NO_PRODUCER`` for a write outside of any."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


NO_PRODUCER: Final = TransactionalProducer("", NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Verification(NamedTuple):
    """The result of a request to the transaction coordinator whether a producer's transaction has the partition.

    Attributes:
        error: NONE, else the reason why nothing may be appended.
        guard: the attempt, which the append has to hand in; None where no guard is needed, because the transaction has
            records in the partition already.
    """

    error: ErrorCode = ErrorCode.NONE
    guard: VerificationGuard | None = None


class TransactionEnd(NamedTuple):
    """The end of a producer's transaction, as its coordinator has decided it.

    Attributes:
        coordinator_epoch: of the transaction coordinator; a partition rejects those of older coordinators.
        transaction_version: the feature level ``transaction.version`` under which it was decided.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int

    def build_marker(self, timestamp_ms: int) -> bytes:
        """Return the control batch that ends the transaction in one partition."""
        return build_end_transaction_marker(
            ControlRecordType.COMMIT if self.is_commit else ControlRecordType.ABORT,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            timestamp_ms=timestamp_ms,
        )
