"""EndTxn: the decision to commit or to abort.

Under ``transaction.version`` 2 each end increments the epoch, so that a repeated request is recognized by the epoch
before; under the versions before, by the state alone.

Source: TransactionCoordinator.endTransaction and endTransactionWithTV1 of Apache Kafka 4.3; KIP-890.
"""

from dataclasses import dataclass

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.transactions.log import TransactionRecord
from ottla.transactions.metadata import (
    EPOCH_PER_TRANSACTION_VERSION,
    TransactionMetadata,
    is_exhausted,
)
from ottla.transactions.new_producer_id import NEEDS_PRODUCER_ID, NeedsProducerId
from ottla.transactions.shard import TransactionShard
from ottla.transactions.state import TransactionState
from ottla.types import ProducerEpoch, ProducerId
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.records import NO_PRODUCER_ID, PRODUCER_EPOCH_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """A request. ``client_transaction_version``: see `TransactionMetadata`."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    client_transaction_version: int
    now_ms: int


_Result = CoordinatorResult[TransactionRecord, EndTxnResponse | NeedsProducerId]


def end_transaction(shard: TransactionShard, request: End, new_producer_id: ProducerId | None) -> _Result:
    """Decide the end of a transaction; the response has the id and epoch of the next one.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    current = shard.transactions.get(request.transactional_id)
    if current is None:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.client_transaction_version < EPOCH_PER_TRANSACTION_VERSION:
        is_repeated = _check_by_state(current, request)
    else:
        is_repeated = _check_by_epoch(current, request)
    if is_repeated:
        response = EndTxnResponse(producer_id=current.producer_id, producer_epoch=current.producer_epoch)
        return CoordinatorResult(response=response)
    next_producer_id = NO_PRODUCER_ID
    if request.client_transaction_version >= EPOCH_PER_TRANSACTION_VERSION and is_exhausted(current.producer_epoch):
        if new_producer_id is None:
            return CoordinatorResult(response=NEEDS_PRODUCER_ID)
        next_producer_id = new_producer_id
    prepared = current.prepared(
        is_commit=request.is_commit,
        client_transaction_version=request.client_transaction_version,
        next_producer_id=next_producer_id,
        now_ms=request.now_ms,
    )
    return shard.write(prepared).with_response(_next_producer(prepared))


def _next_producer(prepared: TransactionMetadata) -> EndTxnResponse:
    if prepared.next_producer_id != NO_PRODUCER_ID:
        return EndTxnResponse(producer_id=prepared.next_producer_id, producer_epoch=0)
    return EndTxnResponse(producer_id=prepared.producer_id, producer_epoch=prepared.producer_epoch)


def _check_by_state(current: TransactionMetadata, request: End) -> bool:
    """Return whether the request repeats one that was carried out, by the rules before version 2."""
    if current.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return False
    _require_same_end(current, request)
    return True


def _check_by_epoch(current: TransactionMetadata, request: End) -> bool:
    """Return whether the request repeats one that was carried out, by the rules of version 2."""
    if current.state.is_prepared:
        # Kafka has a pending transition then, and looks at nothing else. The request may repeat the one that is being
        # carried out, or end the next transaction, of which no partition has been added yet.
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_new_epoch = current.producer_epoch == request.producer_epoch + 1
    has_new_id = (
        current.previous_producer_id == request.producer_id
        and request.producer_epoch == PRODUCER_EPOCH_MAX - 1
        and current.producer_epoch == 0
    )
    if current.producer_id != request.producer_id and not has_new_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_current = current.producer_epoch == request.producer_epoch
    is_repeated = has_new_epoch or has_new_id
    if not (is_current or (is_repeated and current.state.is_complete)):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if current.state is TransactionState.ONGOING:
        return False
    if current.state.is_complete and not current.has_epoch_per_transaction:
        _require_same_end(current, request)
        return True
    if is_repeated:
        _require_same_end(current, request)
        return True
    if request.is_commit:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
    return False  # an abort before the first partition: it increments the epoch


def _require_same_end(current: TransactionMetadata, request: End) -> None:
    """Raise unless the transaction was ended as the request wants to end it.

    Raises:
        KafkaError: INVALID_TXN_STATE.
    """
    committed = current.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    aborted = current.state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
    if not (committed if request.is_commit else aborted):
        raise KafkaError(ErrorCode.INVALID_TXN_STATE)
