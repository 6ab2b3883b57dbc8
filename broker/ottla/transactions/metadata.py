"""`TransactionMetadata`: what the coordinator knows of one transactional id, and its transitions.

A transition is a pure function: it returns the metadata to be written and changes nothing.

Source: TransactionMetadata of Apache Kafka 4.3; KIP-98, KIP-360, KIP-890.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.transactions.state import TransactionState, may_follow
from ottla.types import ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, PRODUCER_EPOCH_MAX

EPOCH_PER_TRANSACTION_VERSION: Final = 2
"""From this ``transaction.version`` on, each end of a transaction increments the producer's epoch (KIP-890)."""


def is_exhausted(epoch: ProducerEpoch) -> bool:
    """Return whether the epoch can be fenced, but no longer incremented for a producer."""
    return epoch >= PRODUCER_EPOCH_MAX - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id. Times are the wall clock's, in ms; -1 for none.

    Attributes:
        previous_producer_id: the producer id before the last transition.
        next_producer_id: replaces ``producer_id`` when a prepared transaction is complete; -1: keeps it.
        last_producer_epoch: the epoch before the current one, for producers that repeat a request; -1 if it does not
            count. It is not in the record, as in Kafka.
        partitions: that have or may have records of the open transaction.
        client_transaction_version: ``transaction.version`` by which the client takes part.
    """

    transactional_id: str
    producer_id: ProducerId
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    next_producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_transaction_version: int = 0

    @property
    def has_epoch_per_transaction(self) -> bool:
        return self.client_transaction_version >= EPOCH_PER_TRANSACTION_VERSION

    def incremented(
        self, *, timeout_ms: int, expected_epoch: ProducerEpoch | None, now_ms: int
    ) -> "TransactionMetadata":
        """Return it with the producer's next epoch, which fences older instances.

        Args:
            timeout_ms: of the transactions to come.
            expected_epoch: that the producer believes to have (KIP-360); None for a new instance. The last one again is
                a repeated request, and has the same result.
            now_ms: by the wall clock.

        Raises:
            KafkaError: PRODUCER_FENCED.
        """
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise KafkaError(ErrorCode.PRODUCER_FENCED)
        return self._initialized(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def rotated(
        self, new_producer_id: ProducerId, *, timeout_ms: int, keeps_last_epoch: bool, now_ms: int
    ) -> "TransactionMetadata":
        """Return it with another producer id and epoch 0: the epochs of the current one are used up."""
        last_epoch = self.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
        return self._initialized(new_producer_id, 0, last_epoch, timeout_ms, now_ms)

    def _initialized(
        self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        last_epoch: ProducerEpoch,
        timeout_ms: int,
        now_ms: int,
    ) -> "TransactionMetadata":
        return self._to(
            TransactionState.EMPTY,
            now_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], *, client_transaction_version: int, now_ms: int
    ) -> "TransactionMetadata":
        """Return it with more partitions; the first ones begin the transaction."""
        begins = self.state is not TransactionState.ONGOING
        return self._to(
            TransactionState.ONGOING,
            now_ms,
            partitions=self.partitions.union(added),
            start_ms=now_ms if begins else self.start_ms,
            client_transaction_version=client_transaction_version,
        )

    def fenced(self) -> "TransactionMetadata":
        """Return it with an epoch that no producer has, to abort its transaction; not a transition of its own."""
        epoch = min(self.producer_epoch + 1, PRODUCER_EPOCH_MAX)
        return replace(self, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH)

    def prepared(
        self,
        *,
        is_commit: bool,
        client_transaction_version: int,
        next_producer_id: ProducerId,
        now_ms: int,
    ) -> "TransactionMetadata":
        """Return it with the decision to commit or to abort."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_transaction_version >= EPOCH_PER_TRANSACTION_VERSION:
            epoch, last_epoch = min(epoch + 1, PRODUCER_EPOCH_MAX), epoch
        return self._to(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            now_ms,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            # An abort may come before the first partition.
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            client_transaction_version=client_transaction_version,
        )

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """Return it with all markers written; a producer whose epochs are used up gets its next id."""
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        changes: dict[str, object] = {}
        if self.has_epoch_per_transaction and self.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._to(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            now_ms,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            **changes,
        )

    def _to(self, state: TransactionState, now_ms: int, **changes: object) -> "TransactionMetadata":
        assert may_follow(self.state, state), f"{self.transactional_id}: {state.name} after {self.state.name}"
        return replace(self, previous_producer_id=self.producer_id, state=state, updated_ms=now_ms, **changes)  # type: ignore[arg-type]
