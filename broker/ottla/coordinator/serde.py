"""`RecordSerde`: the records of a coordinator's internal topic, as objects and as bytes.

Source: CoordinatorRecordSerde of Apache Kafka's coordinator-common.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.coordinator.transactions import NO_PRODUCER, TransactionalProducer
from ottla.purgatory.steps import Steps
from ottla.wire.records import RecordBatchBuilder

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSerde(Generic[RecordT]):
    """Functions between a record and its key and value; a value of None is a tombstone.

    Attributes:
        encode: returns the bytes of key and value.
        decode: returns the record, or None for a type that this release does not keep; raises ProtocolError for bytes
            that are not such a record.
        decode_in_steps: returns the same, for records of which one may take milliseconds.
    """

    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    decode_in_steps: Callable[[bytes, bytes | None], Steps[RecordT | None]] | None = None

    def encode_batch(
        self, records: Iterable[RecordT], *, timestamp_ms: int, producer: TransactionalProducer = NO_PRODUCER
    ) -> bytes:
        """Return one uncompressed batch of ``records`` (at least one), all with ``timestamp_ms``."""
        builder = RecordBatchBuilder(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            is_transactional=producer is not NO_PRODUCER,
        )
        for record in records:
            key, value = self.encode(record)
            builder.append(timestamp_ms=timestamp_ms, key=key, value=value)
        return builder.build()
