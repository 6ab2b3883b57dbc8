"""The part of a Produce that belongs to a transaction: its producer, and the errors of its verification.

Source: KafkaApis.handleProduceRequest, AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend of Apache Kafka
4.3; KIP-890.
"""

from struct import Struct
from typing import Final

from ottla.errors import ErrorCode, KafkaError
from ottla.transactions.append_attempt import BatchProducer
from ottla.wire.records import HEADER_SIZE_BYTES

FIRST_VERSION_THAT_ADDS_PARTITIONS: Final = 12
FIRST_VERSION_WITH_ABORTABLE: Final = 11

_TRANSACTIONAL_BIT: Final = 0x10
_ATTRIBUTES_LOW_BYTE: Final = 22
_PRODUCER: Final = Struct(">qhi")  # producer id, producer epoch, base sequence
_PRODUCER_POSITION: Final = 43

_NOT_VERIFIED: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Then the producer repeats the batch; of the errors that it knows, NOT_ENOUGH_REPLICAS is the nearest."""


def is_transactional(records: memoryview) -> bool:
    """Return whether a batch, which has at least its attributes, belongs to a transaction."""
    return bool(records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT)


def read_producer(records: memoryview) -> BatchProducer:
    """Return the producer of an unchecked batch.

    Raises:
        KafkaError: CORRUPT_MESSAGE, the header is cut off.
    """
    if len(records) < HEADER_SIZE_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE)
    return BatchProducer(*_PRODUCER.unpack_from(records, _PRODUCER_POSITION))


def to_produce_error(code: ErrorCode, api_version: int) -> KafkaError | None:
    """Return the error of a batch for that of its verification; None if it may be appended."""
    if code is ErrorCode.NONE:
        return None
    if code is ErrorCode.INVALID_TXN_STATE:
        return KafkaError(code, "Partition was not added to the transaction")
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version >= FIRST_VERSION_THAT_ADDS_PARTITIONS:
        return KafkaError(code)
    if code in _NOT_VERIFIED:
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
        )
    return KafkaError(code)
