"""`Verifications`: producers whose transaction is being verified before its first batch in this partition (KIP-890).

A leader asks the transaction coordinator whether the transaction is open and has the partition. Meanwhile a marker may
end it here; a batch that were appended then would open a transaction that has no end. Therefore each attempt has a
guard, which the append has to hand in, and which is removed by the marker, and by the first batch of the transaction.

A guard has the lowest sequence of the batches that wait for the same verification: none of them may be appended before
that one. Nothing of this is stored: after a restart a producer verifies again.

Source: VerificationGuard, VerificationStateEntry, UnifiedLog.maybeStartTransactionVerification of Kafka.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.types import ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.records import RecordBatch


class VerificationGuard:
    """One attempt, compared by identity.

    ``supports_epoch_bump``: the producer has an epoch of its own for each transaction (``transaction.version`` 2).
    """

    __slots__ = ("lowest_sequence", "producer_epoch", "started_ms", "supports_epoch_bump")

    def __init__(
        self, producer_epoch: ProducerEpoch, lowest_sequence: int, *, supports_epoch_bump: bool, started_ms: int
    ) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = lowest_sequence
        self.supports_epoch_bump = supports_epoch_bump
        self.started_ms = started_ms


class Verifications:
    """See the module. Times are wall clock's, as those of producers."""

    __slots__ = ("_guards", "_topic_partition")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self._guards: dict[ProducerId, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def start(
        self,
        producer_id: ProducerId,
        *,
        producer_epoch: ProducerEpoch,
        sequence: int,
        supports_epoch_bump: bool,
        now_ms: int,
    ) -> VerificationGuard:
        """Return the guard of the attempt: the one that the producer has already, or a new one."""
        guard = self._guards.get(producer_id)
        if guard is None:
            guard = self._guards[producer_id] = VerificationGuard(
                producer_epoch, sequence, supports_epoch_bump=supports_epoch_bump, started_ms=now_ms
            )
        elif producer_epoch > guard.producer_epoch:
            guard.producer_epoch, guard.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == guard.producer_epoch:
            guard.lowest_sequence = min(guard.lowest_sequence, sequence)
        return guard

    def require_guard(self, batch: RecordBatch, guard: object | None) -> None:
        """Reject the first batch of a transaction without the guard of its verification.

        Raises:
            KafkaError: INVALID_TXN_STATE.
        """
        if guard is None or self._guards.get(batch.producer_id) is not guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has no open transaction in {self._topic_partition}, and none has been "
                "verified for this batch",
            )

    def check_sequence(self, batch: RecordBatch, *, has_batches: bool) -> None:
        """Reject a batch that overtook the one that is to be appended first; ``has_batches`` of the producer's epoch.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        guard = self._guards.get(batch.producer_id)
        if guard is None:
            return
        sequence = batch.base_sequence
        first = 0 if guard.supports_epoch_bump and not has_batches else guard.lowest_sequence
        if sequence > first:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id} in partition {self._topic_partition}: "
                f"{sequence} (incoming seq. number), {first} (first seq. number of the transaction)",
            )

    def on_appended(self, batch: RecordBatch) -> None:
        """Remove the guard of a transaction that has its first batch now, or its end.

        The marker that ends a transaction has the epoch of the next one; the verification of that one goes on.
        """
        guard = self._guards.get(batch.producer_id)
        if guard is None:
            return
        is_of_next = guard.supports_epoch_bump and batch.is_control and batch.producer_epoch == guard.producer_epoch
        if not is_of_next:
            del self._guards[batch.producer_id]

    def end(self, producer_id: ProducerId) -> None:
        """Remove the producer's guard, if it has one."""
        self._guards.pop(producer_id, None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove the guards of attempts that started ``expiration_ms`` ago."""
        if self._guards:
            self._guards = {
                producer_id: guard
                for producer_id, guard in self._guards.items()
                if now_ms - guard.started_ms < expiration_ms
            }
