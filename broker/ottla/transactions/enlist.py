"""AddPartitionsToTxn: add partitions to a transaction, or verify that they are in it.

Source: TransactionCoordinator.handleAddPartitionsToTransaction and handleVerifyPartitionsInTransaction of Apache Kafka
4.3.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.transactions.log import TransactionRecord
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.shard import TransactionShard
from ottla.transactions.state import TransactionState
from ottla.types import ProducerEpoch, ProducerId, TopicPartition

PARTITIONS_MAX: Final = 4_000
"""Of one transaction: each record lists all of them, and is encoded without a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enlistment:
    """Partitions of a producer's transaction. ``client_transaction_version``: see `TransactionMetadata`."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: frozenset[TopicPartition]
    client_transaction_version: int = 0


def add_partitions(
    shard: TransactionShard, request: Enlistment, now_ms: int
) -> CoordinatorResult[TransactionRecord, ErrorCode]:
    """Decide to add the partitions; the first ones begin the transaction.

    Raises:
        KafkaError: see `require_producer`; UNKNOWN_SERVER_ERROR above `PARTITIONS_MAX`, as JVM Kafka for a record that
            is too large.
    """
    current = require_producer(shard, request)
    if current.state is TransactionState.ONGOING and request.partitions <= current.partitions:
        return CoordinatorResult(response=ErrorCode.NONE)
    added = current.with_partitions(
        request.partitions, client_transaction_version=request.client_transaction_version, now_ms=now_ms
    )
    if len(added.partitions) > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return shard.write(added).with_response(ErrorCode.NONE)


def missing_partitions(shard: TransactionShard, request: Enlistment) -> Iterable[TopicPartition]:
    """Return the partitions that are not in the producer's transaction.

    Raises:
        KafkaError: see `require_producer`.
    """
    return request.partitions - require_producer(shard, request).partitions


def require_producer(shard: TransactionShard, request: Enlistment) -> TransactionMetadata:
    """Return the metadata of an id that the producer may add partitions to.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, or CONCURRENT_TRANSACTIONS while its last transaction
            is being ended.
    """
    current = shard.transactions.get(request.transactional_id)
    if current is None or current.producer_id != request.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != request.producer_epoch:
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if current.state.is_prepared:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return current
