"""`AppendAttempt`: a transactional batch that a partition leader verifies with the coordinator before it appends it.

Source: ReplicaManager.handleProduceAppend, maybeSendPartitionsToTransactionCoordinator of Apache Kafka 4.3; KIP-890.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.log.partition_log import PartitionLog
from ottla.log.verifications import VerificationGuard
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.transactions.known_errors import to_known_error
from ottla.transactions.verifier import PartitionErrors, TransactionVerifier, Verification
from ottla.types import ProducerEpoch, ProducerId


class BatchProducer(NamedTuple):
    """Of a batch, from its header."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int


@dataclass(slots=True, eq=False)
class AppendAttempt:
    """One batch in one partition.

    Attributes:
        guard: of the verification; None before the first try, and if the transaction has batches in the partition.
        error: of the coordinator or the partition; NONE if the batch may be appended.
    """

    log: PartitionLog
    producer: BatchProducer
    guard: VerificationGuard | None = None
    error: ErrorCode = ErrorCode.NONE

    def start(self, *, adds_partitions: bool) -> None:
        producer = self.producer
        try:
            self.guard = self.log.start_verification(
                producer.producer_id,
                producer_epoch=producer.producer_epoch,
                sequence=producer.base_sequence,
                supports_epoch_bump=adds_partitions,
            )
        except KafkaError as error:
            self.guard, self.error = None, error.code


def verify_attempts(
    attempts: list[AppendAttempt],
    *,
    transactional_id: str,
    adds_partitions: bool,
    knows_abortable: bool,
    verifier: TransactionVerifier,
    clock: Clock,
) -> Delayed[None]:
    """Have the coordinator confirm the partitions in which a transaction begins; set the errors of the others.

    ``attempts`` have one producer id. While the producer's last transaction is being ended, its marker may remove a
    guard: each try starts with a new one. Appends have INVALID_PRODUCER_EPOCH for PRODUCER_FENCED in every version, and
    TRANSACTION_ABORTABLE in those that know it (``knows_abortable``).
    """
    done: Delayed[None] = Delayed()
    first_tried_ms = clock.monotonic_ms()
    unverified: list[AppendAttempt] = []

    def try_once(_: None) -> None:
        for attempt in attempts:
            attempt.start(adds_partitions=adds_partitions)
        unverified[:] = [attempt for attempt in attempts if attempt.guard is not None]
        if not unverified:
            done.complete(None)
            return
        verification = Verification(
            transactional_id=transactional_id,
            producer_id=attempts[0].producer.producer_id,
            producer_epoch=attempts[0].producer.producer_epoch,
            partitions=tuple({attempt.log.topic_partition: None for attempt in unverified}),
            adds_partitions=adds_partitions,
        )
        verifier.verify(verification).on_complete(on_errors)

    def on_errors(errors: PartitionErrors) -> None:
        is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        backed_off = verifier.back_off(first_tried_ms) if is_concurrent else None
        if backed_off is not None:
            backed_off.on_complete(try_once)
            return
        for attempt in unverified:
            attempt.error = to_known_error(
                errors[attempt.log.topic_partition], knows_fenced=False, knows_abortable=knows_abortable
            )
            if attempt.error is not ErrorCode.NONE and not attempt.error.is_retriable:
                attempt.log.end_verification(attempt.producer.producer_id)
        done.complete(None)

    try_once(None)
    return done
