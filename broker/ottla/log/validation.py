"""Checks of a leader on a batch before it assigns offsets: everything but the records, which `batch_check` walks.

The header is checked in full. The number of records and headers in one batch is limited, because 5 KB can hold thirty
million headers, and consumers would have to read them.

JVM Kafka accepts offset deltas with gaps in plain batches, fails on them with UNKNOWN_SERVER_ERROR in compressed ones,
does not compare a record's own size with its fields there, and takes sizes below -1 for null. Readers fail on all of
that, librdkafka without ever returning, so here it is INVALID_RECORD, as every other such contradiction is in both.

Source: LogValidator and UnifiedLog.analyzeAndValidateRecords of Kafka.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.errors import ErrorCode, InvalidRecordError, KafkaError
from ottla.log.config import LogConfig
from ottla.ports import Buffer
from ottla.types import LeaderEpoch, Offset, TopicPartition
from ottla.wire.records import NO_TIMESTAMP, Compression, RecordBatch, iterate_batches
from ottla.wire.records.compression import CODECS

RECORDS_SIZE_BYTES_MAX = 100 * 1024 * 1024
"""Limit of a batch's decompressed size, if it must be decompressed: as much as the largest request."""
_BYTES_PER_ENTRY_MIN = 4
"""A batch may hold one record or header per so many bytes of max.message.bytes; uncompressed, it cannot hold more."""
_ENTRIES_LIMIT_MIN = 65_536
_RECORD_SIZE_BYTES_MIN = 7
"""Its size, attributes, two deltas, two sizes and a header count, of a byte each."""

_COMPRESSION_BITS = 0x07
_APPEND_TIME_BIT = 0x08
_CONTROL_BIT = 0x20

_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    **{codec.label: codec for codec in Compression if codec is not Compression.NONE},
}


_COMPRESSION_KINDS = frozenset(Compression)


@dataclass(frozen=True, slots=True)
class RecordError:
    """The reason why one record made its batch invalid; ``batch_index`` counts records in the batch from 0."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """Rejection of a batch because of its records; ``record_errors`` go into the ProduceResponse."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def check_size(size_bytes: int, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Reject a batch that is larger than the topic allows, or than a segment can hold.

    Raises:
        KafkaError: MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE.
    """
    if size_bytes > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {topic_partition} is {size_bytes} bytes which exceeds the "
            f"maximum configured value of {config.max_message_bytes}.",
        )
    if size_bytes > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size_bytes} bytes in append to partition {topic_partition}, which exceeds the "
            f"maximum configured segment size of {config.segment_bytes}.",
        )


def check_client_size(batch: RecordBatch, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Reject more than one batch, or a batch that is too large.

    Raises:
        InvalidRecordError: bytes follow the batch.
        KafkaError: MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE.
    """
    if len(batch.buffer) != batch.end_position:
        raise InvalidRecordError(
            f"a produce request holds one record batch per partition; after the one for {topic_partition} come "
            f"{len(batch.buffer) - batch.end_position} more bytes"
        )
    check_size(batch.size_bytes, config, topic_partition)


def check_client_header(batch: RecordBatch, topic_partition: TopicPartition) -> None:
    """Reject a producer's batch, whose CRC is right, for an impossible header.

    Raises:
        InvalidRecordError: the header contradicts itself, or has a value that no producer may set.
    """
    count = batch.record_count
    if count <= 0 or count != batch.last_offset_delta + 1 or batch.base_offset != 0:
        raise _offsets_error(batch, topic_partition)
    if batch.attributes & _CONTROL_BIT:
        raise InvalidRecordError(
            f"Clients are not allowed to write control records in topic partition {topic_partition}"
        )
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidRecordError(
            f"Invalid sequence number {batch.base_sequence} in record batch with producerId {batch.producer_id} in "
            f"topic partition {topic_partition}"
        )
    kind = batch.attributes & _COMPRESSION_BITS
    if kind not in _COMPRESSION_KINDS:
        raise InvalidRecordError(f"Unknown compression type id: {kind}")


def _offsets_error(batch: RecordBatch, topic_partition: TopicPartition) -> InvalidRecordError:
    offsets = f"[{batch.base_offset}, {batch.last_offset}]"
    if batch.base_offset != 0:
        reason = (
            f"The baseOffset of the record batch in the append to {topic_partition} should be 0, but it is "
            f"{batch.base_offset}"
        )
    elif batch.last_offset_delta < 0:
        reason = f"Batch has an invalid offset range: {offsets} in topic partition {topic_partition}"
    elif batch.record_count <= 0:
        reason = f"Invalid reported count for record batch: {batch.record_count} in topic partition {topic_partition}"
    else:
        reason = (
            f"Inconsistent batch offset range {offsets} and count of records {batch.record_count} in topic "
            f"partition {topic_partition}"
        )
    return InvalidRecordError(reason)


def entries_max(config: LogConfig) -> int:
    """Return how many records, and how many headers, a batch may have."""
    return max(config.max_message_bytes // _BYTES_PER_ENTRY_MIN, _ENTRIES_LIMIT_MIN)


def check_record_count(batch: RecordBatch, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Reject a batch for the number of records that its header gives.

    Raises:
        InvalidRecordError: there cannot be so many.
        KafkaError: MESSAGE_TOO_LARGE.
    """
    count = batch.record_count
    if count <= entries_max(config):
        return
    size_bytes_max = RECORDS_SIZE_BYTES_MAX if batch.is_compressed else len(batch.payload)
    if count * _RECORD_SIZE_BYTES_MIN > size_bytes_max:
        raise InvalidRecordError(
            f"the header of the batch has {count} records; it has at most {size_bytes_max} bytes for them"
        )
    raise KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch in the append to {topic_partition} has {count} records; with max.message.bytes="
        f"{config.max_message_bytes} it may have {entries_max(config)}",
    )


def check_assigned_batches(
    records: Buffer, next_offset: Offset, topic_partition: TopicPartition, leader_epoch_max: LeaderEpoch | None = None
) -> list[RecordBatch]:
    """Return the whole batches of ``records``, which have their offsets, after checking that they can be appended.

    The first batch of an epoch above ``leader_epoch_max``, and the batches after it, are skipped: the follower must
    learn of the new leader first (KAFKA-18723).

    Raises:
        CorruptRecordError: a CRC does not match, or bytes are no batch.
        KafkaError: OFFSET_OUT_OF_RANGE, a batch starts below ``next_offset`` or below the end of the one before.
    """
    batches = []
    for batch in iterate_batches(records):
        if leader_epoch_max is not None and batch.leader_epoch > leader_epoch_max:
            break
        batch.check_crc()
        if batch.base_offset < next_offset or batch.last_offset_delta < 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"unexpected offset in append to {topic_partition}: a batch has offsets {batch.base_offset} to "
                f"{batch.last_offset}, the next offset is {next_offset}",
            )
        next_offset = batch.next_offset
        batches.append(batch)
    return batches


def require_keys(null_key_indexes: Sequence[int], topic_partition: TopicPartition) -> None:
    """Reject a batch for a compacted topic that has records without key, at ``null_key_indexes``.

    Raises:
        RecordValidationError: INVALID_RECORD.
    """
    if null_key_indexes:
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected",
            tuple(
                RecordError(
                    index, f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
                )
                for index in null_key_indexes
            ),
        )


def check_timestamps(batch: RecordBatch, oldest_ms: int, newest_ms: int, config: LogConfig, now_ms: int) -> None:
    """Reject a batch for the timestamps of its records, or for the type that its header gives them.

    ``oldest_ms`` counts only where message.timestamp.before.max.ms is set.

    Raises:
        RecordValidationError: INVALID_TIMESTAMP.
    """
    if config.message_timestamp_type == "CreateTime":
        _check_timestamp(oldest_ms, config, now_ms)
        _check_timestamp(newest_ms, config, now_ms)
    elif batch.attributes & _APPEND_TIME_BIT:
        raise RecordValidationError(
            ErrorCode.INVALID_TIMESTAMP,
            "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.",
        )


def _check_timestamp(timestamp_ms: int, config: LogConfig, now_ms: int) -> None:
    if timestamp_ms == NO_TIMESTAMP:
        return
    age_ms = now_ms - timestamp_ms
    if age_ms > config.message_timestamp_before_max_ms or -age_ms > config.message_timestamp_after_max_ms:
        earliest_ms = now_ms - config.message_timestamp_before_max_ms
        latest_ms = now_ms + config.message_timestamp_after_max_ms
        raise RecordValidationError(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamp {timestamp_ms} of message is out of range. The timestamp should be within "
            f"[{earliest_ms}, {latest_ms}]",
        )


def must_recompress(batch: RecordBatch, config: LogConfig) -> bool:
    """Whether the topic has another codec than the producer used; control batches are never recompressed."""
    if config.compression_type == "producer" or batch.is_control:
        return False
    return batch.compression is not _COMPRESSIONS[config.compression_type]


def target_compression(config: LogConfig) -> tuple[Compression, int | None]:
    """Return the codec of a topic, which is not "producer", and its level; None is the codec's default."""
    kind = _COMPRESSIONS[config.compression_type]
    if CODECS[kind].levels is None:
        return kind, None
    level: int = getattr(config, f"compression_{kind.label}_level")
    return kind, level
