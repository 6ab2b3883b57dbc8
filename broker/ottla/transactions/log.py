"""Records of ``__transaction_state``, as objects and as bytes.

Key: int16 version 0, then TransactionLogKey. Value: int16 version, then TransactionLogValue; null is a tombstone.
Version 1, with tagged fields, is written from ``transaction.version`` 1 on.

Source: TransactionLog, TransactionCoordinatorRecordSerde of Apache Kafka 4.3.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ottla.coordinator.serde import RecordSerde
from ottla.errors import ProtocolError
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import TopicPartition
from ottla.wire.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.wire.records import NO_PRODUCER_ID

_INT16 = Struct(">h")
_KEY_VERSION: Final = 0
_FLEXIBLE_VALUE_VERSION: Final = 1
_TRANSACTION_VERSION_MAX: Final = 2**7 - 1
"""An int16 in the record, an int8 in WriteTxnMarkers."""
_STORED_STATES: Final = frozenset(
    state.value for state in TransactionState if state is not TransactionState.PREPARE_EPOCH_FENCE
)


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """One record: the metadata of a transactional id, None for its tombstone; ``value_version`` 0 or 1."""

    transactional_id: str
    metadata: TransactionMetadata | None
    value_version: int = 0


def value_version(transaction_version: int) -> int:
    """Return the version of values under a finalized ``transaction.version``."""
    return 0 if transaction_version < 1 else _FLEXIBLE_VALUE_VERSION


def encode(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value."""
    key = _INT16.pack(_KEY_VERSION) + TransactionLogKey(transactional_id=record.transactional_id).encode(_KEY_VERSION)
    if record.metadata is None:
        return key, None
    version = record.value_version
    return key, _INT16.pack(version) + _to_value(record.metadata, version).encode(version)


def _to_value(metadata: TransactionMetadata, version: int) -> TransactionLogValue:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state.value,
        transaction_partitions=None if metadata.state is TransactionState.EMPTY else _by_topic(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.updated_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version >= _FLEXIBLE_VALUE_VERSION:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_transaction_version
    return value


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in numbers.items()]


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Return the record; None for a key of a version that this release does not know, as Kafka skips it.

    Raises:
        ProtocolError: the bytes are not such a record, the value has an unknown version, or see `_check_value`.
    """
    if len(key) < _INT16.size:
        raise ProtocolError(f"the key of a transaction record has {len(key)} bytes; its version alone takes 2")
    if _INT16.unpack_from(key)[0] != _KEY_VERSION:
        return None
    transactional_id = TransactionLogKey.decode(key, _KEY_VERSION, _INT16.size).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    if len(value) < _INT16.size:
        raise ProtocolError(f"the value of {transactional_id!r} has {len(value)} bytes; its version alone takes 2")
    (version,) = _INT16.unpack_from(value)
    if version not in TransactionLogValue.versions:
        raise ProtocolError(
            f"the value of {transactional_id!r} has version {version}; known are {TransactionLogValue.versions}"
        )
    return TransactionRecord(
        transactional_id, _to_metadata(transactional_id, TransactionLogValue.decode(value, version, 2)), version
    )


def _to_metadata(transactional_id: str, value: TransactionLogValue) -> TransactionMetadata:
    _check_value(transactional_id, value)
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_transaction_version=value.client_transaction_version,
    )


def _check_value(transactional_id: str, value: TransactionLogValue) -> None:
    """Reject a value that no coordinator writes: the shard could neither continue nor end its transaction.

    Raises:
        ProtocolError: an unknown state, or one that exists in the memory of JVM Kafka only; a producer id, epoch,
            time-out, partition or version that is negative, or that WriteTxnMarkers cannot represent.
    """
    if value.transaction_status not in _STORED_STATES:
        raise ProtocolError(f"{transactional_id!r} has an unknown state: {value.transaction_status}")
    if value.producer_id < 0 or value.next_producer_id < NO_PRODUCER_ID or value.producer_epoch < 0:
        raise ProtocolError(
            f"{transactional_id!r} has producer id {value.producer_id}, next {value.next_producer_id}, and epoch "
            f"{value.producer_epoch}"
        )
    if value.transaction_timeout_ms < 0:
        raise ProtocolError(f"{transactional_id!r} has a time-out of {value.transaction_timeout_ms} ms")
    if not 0 <= value.client_transaction_version <= _TRANSACTION_VERSION_MAX:
        raise ProtocolError(f"{transactional_id!r} has transaction version {value.client_transaction_version}")
    for topic in value.transaction_partitions or ():
        if min(topic.partition_ids, default=0) < 0:
            raise ProtocolError(f"{transactional_id!r} has partition {min(topic.partition_ids)} of {topic.topic!r}")


TRANSACTION_RECORD_SERDE: Final = RecordSerde(encode=encode, decode=decode)
"""`TransactionRecord` for `coordinator.runtime`."""
