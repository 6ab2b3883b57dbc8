"""InitProducerId of a transactional id: a new id, the next epoch, or the abort of what an older instance left open.

Source: TransactionCoordinator.handleInitProducerId of Apache Kafka 4.3; KIP-360.
"""

from dataclasses import dataclass

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.transactions.log import TransactionRecord
from ottla.transactions.metadata import TransactionMetadata, is_exhausted
from ottla.transactions.new_producer_id import NEEDS_PRODUCER_ID, NeedsProducerId
from ottla.transactions.shard import TransactionShard
from ottla.transactions.state import TransactionState
from ottla.types import ProducerEpoch, ProducerId
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.records import NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Initialization:
    """A request. ``expected`` are the id and epoch that the producer believes to have; None for a new instance."""

    transactional_id: str
    timeout_ms: int
    expected: tuple[ProducerId, ProducerEpoch] | None
    now_ms: int


def initialize(
    shard: TransactionShard, request: Initialization, new_producer_id: ProducerId | None
) -> CoordinatorResult[TransactionRecord, InitProducerIdResponse | NeedsProducerId]:
    """Decide what an initialization writes.

    Raises:
        KafkaError: PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    current = shard.transactions.get(request.transactional_id)
    if current is None:
        if new_producer_id is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        current = TransactionMetadata(
            transactional_id=request.transactional_id,
            producer_id=new_producer_id,
            timeout_ms=request.timeout_ms,
            updated_ms=request.now_ms,
        )
    if request.expected is not None and not _is_valid(current, *request.expected):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        # The producer tries again, and then finds the transaction aborted.
        concurrent = InitProducerIdResponse(
            error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=NO_PRODUCER_EPOCH
        )
        return shard.abort(current).with_response(concurrent)
    expected_epoch = None if request.expected is None else request.expected[1]
    if is_exhausted(current.producer_epoch) and expected_epoch in (None, current.producer_epoch):
        if new_producer_id is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        initialized = current.rotated(
            new_producer_id,
            timeout_ms=request.timeout_ms,
            keeps_last_epoch=expected_epoch is not None,
            now_ms=request.now_ms,
        )
    else:
        initialized = current.incremented(
            timeout_ms=request.timeout_ms, expected_epoch=expected_epoch, now_ms=request.now_ms
        )
    response = InitProducerIdResponse(producer_id=initialized.producer_id, producer_epoch=initialized.producer_epoch)
    return shard.write(initialized).with_response(response)


def _is_valid(current: TransactionMetadata, producer_id: ProducerId, epoch: ProducerEpoch) -> bool:
    """Return whether a producer with this id may go on; its id may be the one whose epochs were used up."""
    return (
        current.producer_epoch == NO_PRODUCER_EPOCH
        or producer_id == current.producer_id
        or (producer_id == current.previous_producer_id and is_exhausted(epoch))
    )
