"""Build record batches for producers, coordinators, the controller and compaction.

Source: DefaultRecordBatch.writeHeader, DefaultRecord.writeTo and MemoryRecordsBuilder of Kafka.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypedDict, Unpack

from ottla.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from ottla.wire.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
    parse_batch,
)
from ottla.wire.records.compression import Compression, compress
from ottla.wire.records.crc32c import crc32c
from ottla.wire.records.record import Header, Record
from ottla.wire.records.varint import encode_varint

_OFFSET_DELTA_MAX: Final = 2**31 - 1
_NULL: Final = encode_varint(-1)
_NO_HEADERS: Final = encode_varint(0)
_ATTRIBUTES: Final = b"\x00"
"""A record's own attributes, of which Kafka uses none."""
_CRC_SIZE_BYTES: Final = 4


class BatchOptions(TypedDict, total=False):
    """Fields of a batch's header that do not follow from its records; all are optional.

    Units and ranges are those of `RecordBatch`'s fields of the same names.
    """

    base_offset: Offset
    """Offset that the records' deltas are relative to; default: 0, as producers send it."""
    leader_epoch: LeaderEpoch
    """Default: -1; the appending broker patches it."""
    compression: Compression
    compression_level: int | None
    """As in `compress`; None is Kafka's default."""
    timestamp_type: TimestampType
    log_append_time_ms: int | None
    """With LOG_APPEND_TIME: the broker's time, which readers get instead of the records' own."""
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    is_transactional: bool
    is_control: bool
    """Holds control records (see `control`), which consumers do not see."""
    delete_horizon_ms: int | None
    """The time from which compaction may remove the batch's tombstones (KIP-534)."""


class RecordBatchBuilder:
    """Collects records, in the order of their offsets, until `build` creates a batch of them.

    ``size_bytes`` is the size of the batch without compression, to be compared with ``batch.size``.
    """

    def __init__(
        self,
        *,
        base_offset: Offset = 0,
        leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        log_append_time_ms: int | None = None,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon_ms: int | None = None,
    ) -> None:
        """Start a batch; `BatchOptions` explains the arguments.

        Raises:
            ValueError: LOG_APPEND_TIME without ``log_append_time_ms``, or the other way round.
        """
        is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
        if is_append_time != (log_append_time_ms is not None):
            raise ValueError(f"log_append_time_ms is {log_append_time_ms} in a batch with {timestamp_type.label}")
        self._base_offset = base_offset
        self._leader_epoch = leader_epoch
        self._compression = compression
        self._compression_level = compression_level
        self._attributes = (
            compression
            | (TIMESTAMP_TYPE_BIT if is_append_time else 0)
            | (TRANSACTIONAL_BIT if is_transactional else 0)
            | (CONTROL_BIT if is_control else 0)
            | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
        )
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._base_timestamp_ms = delete_horizon_ms
        self._log_append_time_ms = log_append_time_ms
        self._max_timestamp_ms: int | None = None
        self._next_offset = base_offset
        self._records = bytearray()
        self._record_count = 0

    @property
    def record_count(self) -> int:
        return self._record_count

    @property
    def size_bytes(self) -> int:
        return HEADER_SIZE_BYTES + len(self._records)

    def append(
        self,
        *,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        offset: Offset | None = None,
    ) -> Offset:
        """Add one record and return its offset: ``offset``, or the one after the last record's.

        Raises:
            ValueError: ``offset`` is not above the last record's, or is 2^31 or more from the base offset.
        """
        if offset is None:
            offset = self._next_offset
        offset_delta = offset - self._base_offset
        if offset < self._next_offset or offset_delta > _OFFSET_DELTA_MAX:
            raise ValueError(
                f"offset {offset} cannot follow {self._next_offset - 1} in a batch from {self._base_offset}"
            )
        if self._base_timestamp_ms is None:
            self._base_timestamp_ms = timestamp_ms
        if self._max_timestamp_ms is None or timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        body = b"".join(
            (
                _ATTRIBUTES,
                encode_varint(timestamp_ms - self._base_timestamp_ms),
                encode_varint(offset_delta),
                _NULL if key is None else encode_varint(len(key)),
                key or b"",
                _NULL if value is None else encode_varint(len(value)),
                value or b"",
                _encode_headers(headers) if headers else _NO_HEADERS,
            )
        )
        self._records += encode_varint(len(body))
        self._records += body
        self._record_count += 1
        self._next_offset = offset + 1
        return offset

    def build(self, *, last_offset: Offset | None = None) -> bytes:
        """Return the batch; the builder is not changed.

        Args:
            last_offset: above the last record's when compaction removed the records after it; None is the last
                record's.

        Raises:
            ValueError: there are no records, or ``last_offset`` is below the last one's.
        """
        if self._base_timestamp_ms is None or self._max_timestamp_ms is None:
            raise ValueError("a batch needs at least one record")
        if last_offset is None:
            last_offset = self._next_offset - 1
        elif last_offset < self._next_offset - 1:
            raise ValueError(f"last offset {last_offset} is below the last record's, {self._next_offset - 1}")
        records: bytes | bytearray = self._records
        if self._compression is not Compression.NONE:
            records = compress(self._compression, records, level=self._compression_level)
        max_timestamp_ms = self._log_append_time_ms
        if max_timestamp_ms is None:
            max_timestamp_ms = self._max_timestamp_ms
        return join_batch(
            HEADER.pack(
                self._base_offset,
                HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(records),
                self._leader_epoch,
                MAGIC,
                0,
                self._attributes,
                last_offset - self._base_offset,
                self._base_timestamp_ms,
                max_timestamp_ms,
                *self._producer,
                self._record_count,
            ),
            records,
        )


def join_batch(header: bytes, records: bytes | bytearray) -> bytes:
    """Return the batch of a ``header`` without its CRC-32C, which is computed here, and ``records``."""
    crc = crc32c(records, crc32c(header[ATTRIBUTES_POSITION:]))
    return b"".join(
        (header[:CRC_POSITION], crc.to_bytes(_CRC_SIZE_BYTES, "big"), header[ATTRIBUTES_POSITION:], records)
    )


def build_empty_batch(batch: RecordBatch) -> bytes:
    """Return ``batch`` without its records: its offsets, its producer and the sequence number of its last record.

    Source: DefaultRecordBatch.writeEmptyHeader of Kafka.
    """
    return join_batch(
        HEADER.pack(
            batch.base_offset,
            HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES,
            batch.leader_epoch,
            MAGIC,
            0,
            batch.attributes & (TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT),
            batch.last_offset_delta,
            NO_TIMESTAMP,
            batch.max_timestamp_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            0,
        ),
        b"",
    )


def build_batch(
    records: Iterable[Record], *, last_offset: Offset | None = None, **options: Unpack[BatchOptions]
) -> bytes:
    """Return one batch that holds ``records``.

    Args:
        records: at least one; offsets absolute, ascending, from ``base_offset`` on.
        last_offset: see `RecordBatchBuilder.build`.
        options: of the header; see `BatchOptions`.

    Raises:
        ValueError: there are no records, or their offsets do not ascend.
    """
    builder = RecordBatchBuilder(**options)
    for offset, timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms=timestamp_ms, key=key, value=value, headers=headers, offset=offset)
    return builder.build(last_offset=last_offset)


def replace_records(batch: RecordBatch, compression: Compression, records: bytes) -> RecordBatch:
    """Return ``batch`` with other record bytes, encoded with ``compression``, in a new buffer."""
    header = HEADER.pack(
        batch.base_offset,
        HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(records),
        batch.leader_epoch,
        MAGIC,
        0,
        batch.attributes & ~COMPRESSION_MASK | compression,
        batch.last_offset_delta,
        batch.base_timestamp_ms,
        batch.max_timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
    data = bytearray(header)
    data += records
    crc = crc32c(memoryview(data)[ATTRIBUTES_POSITION:])
    data[CRC_POSITION:ATTRIBUTES_POSITION] = crc.to_bytes(_CRC_SIZE_BYTES, "big")
    return parse_batch(data)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (encode_varint(len(name)), name)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)
