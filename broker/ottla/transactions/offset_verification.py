"""Verification of the batches that TxnOffsetCommit appends to ``__consumer_offsets``.

Source: CoordinatorPartitionWriter.maybeStartTransactionVerification of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.coordinator.transactions import TransactionalProducer
from ottla.coordinator.transactions import Verification as CommitVerification
from ottla.errors import ErrorCode
from ottla.log.partition_log import PartitionLog
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.transactions.append_attempt import AppendAttempt, BatchProducer, verify_attempts
from ottla.transactions.verifier import TransactionVerifier
from ottla.types import TopicPartition
from ottla.wire.records import NO_SEQUENCE

_FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 5
_FIRST_VERSION_WITH_ABORTABLE: Final = 4


class LedLog(Protocol):
    """A replica: `replication.partition.Partition`."""

    @property
    def log(self) -> PartitionLog: ...


class OffsetCommitVerifier:
    """Verifies commits with their transaction coordinator; the `VerifyTransaction` of the groups' log."""

    def __init__(
        self,
        *,
        verifier: TransactionVerifier,
        clock: Clock,
        find: Callable[[str, int], LedLog | None],
    ) -> None:
        """``find`` returns a replica of this node."""
        self._verifier = verifier
        self._clock = clock
        self._find = find

    def verify(
        self, partition: TopicPartition, producer: TransactionalProducer, api_version: int
    ) -> Delayed[CommitVerification]:
        """See `CoordinatorLog.verify_transaction`."""
        replica = self._find(*partition)
        if replica is None:
            return Delayed.of(CommitVerification(ErrorCode.NOT_COORDINATOR))
        attempt = AppendAttempt(replica.log, BatchProducer(producer.producer_id, producer.producer_epoch, NO_SEQUENCE))
        verified = verify_attempts(
            [attempt],
            transactional_id=producer.transactional_id,
            adds_partitions=api_version >= _FIRST_VERSION_THAT_ADDS_PARTITIONS,
            knows_abortable=api_version >= _FIRST_VERSION_WITH_ABORTABLE,
            verifier=self._verifier,
            clock=self._clock,
        )

        def respond(_: None) -> CommitVerification:
            return CommitVerification(attempt.error, attempt.guard)

        return verified.then(respond)
