"""What a leader checks of a batch before it gives it offsets.

The header is checked in full, with the CRC that covers the records. So are the records: that they are as many as the
header says, that their sizes and the sizes in them fit into each other to the last byte, and that their offset deltas
are 0, 1, ... (`are_dense` does that for batches of all usual forms at little cost; what it cannot vouch for is walked).
Compressed batches are decompressed for it, within a limit; and there may be only so many records and headers in one
batch, because 5 KB can hold thirty million headers, and looking at them would hold everybody up.

What the records contain decides only in compacted topics (every record needs a key), where timestamps may be too old,
and where the topic's compression makes them be written anew.

JVM Kafka lets pass offset deltas with gaps in plain batches, fails on them with UNKNOWN_SERVER_ERROR in compressed
ones, and does not hold a record's own size against its fields there. Readers stumble over all of that, so here it is
INVALID_RECORD, as every other such lie is in both.

Source: LogValidator and UnifiedLog.analyzeAndValidateRecords of Kafka.
"""

from contextlib import suppress
from dataclasses import dataclass

from ottla.errors import ErrorCode, InvalidRecordError, KafkaError
from ottla.log.config import LogConfig
from ottla.ports import Buffer
from ottla.types import LeaderEpoch, Offset, TopicPartition
from ottla.wire.records import (
    NO_TIMESTAMP,
    Compression,
    RecordBatch,
    RecordsSummary,
    TimestampType,
    are_dense,
    build_batch,
    count_headers,
    decompress,
    iterate_batches,
    parse_batch,
    read_records,
    validate_plain_records,
)

RECORDS_SIZE_BYTES_MAX = 100 * 1024 * 1024
"""The most that a batch may decompress to, where it must be decompressed: as much as the largest request."""
_BYTES_PER_ENTRY_MIN = 4
"""A batch may hold a record or header for so many bytes of max.message.bytes; without compression it has not more."""
_ENTRIES_LIMIT_MIN = 65_536
_RECORD_SIZE_BYTES_MIN = 7
"""Its size, attributes, two deltas, two sizes and a header count, of a byte each."""
_HEADERS_COUNTED_FROM_BYTES = 4 * 1024 * 1024
"""In fewer bytes there cannot be so many headers that they must be counted before they are looked at."""
_PLAIN_TIMESTAMP_MAX = 2**62
"""Base timestamps up to here either side of 0 leave room for every delta that `are_dense` vouches for."""

_COMPRESSION_BITS = 0x07
_APPEND_TIME_BIT = 0x08
_CONTROL_BIT = 0x20

_COMPRESSIONS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


_COMPRESSION_KINDS = frozenset(Compression)


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why one record made its batch be refused; ``batch_index`` counts records in the batch from 0."""

    batch_index: int
    message: str


class RecordValidationError(KafkaError):
    """A batch refused for what its records say; ``record_errors`` go into the ProduceResponse."""

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...] = ()) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def check_size(size_bytes: int, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Refuse a batch that the topic does not allow, or that no segment could hold.

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


def check_client_batch(batch: RecordBatch, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Refuse a producer's batch whose header cannot be right, or whose records are not what it says.

    The records of topics for which ``minds_records`` holds are left to `check_records`.

    Raises:
        CorruptRecordError: the CRC does not match, or the records cannot be decompressed.
        InvalidRecordError: the header contradicts itself, or the records contradict it or themselves.
        KafkaError: MESSAGE_TOO_LARGE (also for too many records or headers: producers then split the batch),
            RECORD_LIST_TOO_LARGE.
    """
    if len(batch.buffer) != batch.end_position:
        raise InvalidRecordError(
            f"a produce request holds one record batch per partition; after the one for {topic_partition} come "
            f"{len(batch.buffer) - batch.end_position} more bytes"
        )
    check_size(batch.size_bytes, config, topic_partition)
    batch.check_crc()
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
    if config.minds_records:
        _check_codec(batch.attributes & _COMPRESSION_BITS)
    else:
        data = _plain_records(batch, config, topic_partition)
        is_near = -_PLAIN_TIMESTAMP_MAX <= batch.base_timestamp_ms <= _PLAIN_TIMESTAMP_MAX
        if not (is_near and are_dense(data, count, headers_each_max=_headers_each_max(data, count, config))):
            _check_header_count(batch, data, config, topic_partition)
            validate_plain_records(batch, data)


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


def _entries_max(config: LogConfig) -> int:
    return max(config.max_message_bytes // _BYTES_PER_ENTRY_MIN, _ENTRIES_LIMIT_MIN)


def _too_many_entries(found: str, config: LogConfig, topic_partition: TopicPartition) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch in the append to {topic_partition} has {found}; with max.message.bytes="
        f"{config.max_message_bytes} it may have {_entries_max(config)}",
    )


def _plain_records(batch: RecordBatch, config: LogConfig, topic_partition: TopicPartition) -> bytes:
    """Return the batch's records; decompressing them is what shows noise and bombs for what they are.

    Raises:
        CorruptRecordError: the bytes are not what the codec writes, or decompress to too much.
        InvalidRecordError: there is no such codec, or there cannot be so many records.
        KafkaError: MESSAGE_TOO_LARGE, for too many records.
    """
    kind = batch.attributes & _COMPRESSION_BITS
    if not kind:
        data = bytes(batch.payload)
    else:
        _check_codec(kind)
        data = decompress(Compression(kind), batch.payload, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
    count = batch.record_count
    if count > _entries_max(config):
        if count * _RECORD_SIZE_BYTES_MIN > len(data):
            raise InvalidRecordError(f"the batch says that it has {count} records; it has {len(data)} bytes for them")
        raise _too_many_entries(f"{count} records", config, topic_partition)
    return data


def _headers_each_max(data: bytes, record_count: int, config: LogConfig) -> int:
    """Return with how many headers in each of so many records there cannot be too many in all."""
    return _entries_max(config) // max(record_count, 1) if len(data) > _HEADERS_COUNTED_FROM_BYTES else len(data)


def _check_header_count(batch: RecordBatch, data: bytes, config: LogConfig, topic_partition: TopicPartition) -> None:
    """Refuse a batch for the number of its headers, before anybody looks at them.

    Raises:
        InvalidRecordError: the records contradict the header or themselves.
        KafkaError: MESSAGE_TOO_LARGE.
    """
    if len(data) > _HEADERS_COUNTED_FROM_BYTES:
        header_count = count_headers(batch, data)
        if header_count > _entries_max(config):
            raise _too_many_entries(f"{header_count} headers", config, topic_partition)


def _summarize_records(
    batch: RecordBatch, data: bytes, config: LogConfig, topic_partition: TopicPartition
) -> RecordsSummary:
    """Walk the records, once where no record has more headers than each of them may have.

    Raises:
        InvalidRecordError: the records contradict the header or themselves.
        KafkaError: MESSAGE_TOO_LARGE, for too many headers.
    """
    if len(data) > _HEADERS_COUNTED_FROM_BYTES:
        with suppress(InvalidRecordError):
            most = _headers_each_max(data, batch.record_count, config)
            return validate_plain_records(batch, data, headers_each_max=most)
        _check_header_count(batch, data, config, topic_partition)
    return validate_plain_records(batch, data)


def _check_codec(kind: int) -> None:
    if kind not in _COMPRESSION_KINDS:
        raise InvalidRecordError(f"Unknown compression type id: {kind}")


def check_assigned_batches(
    records: Buffer, next_offset: Offset, topic_partition: TopicPartition, leader_epoch_max: LeaderEpoch | None = None
) -> list[RecordBatch]:
    """Return the whole batches of ``records``, which have their offsets, having checked that they may come next.

    The first batch of an epoch above ``leader_epoch_max``, and what comes behind it, is left out: the follower must
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


def check_records(batch: RecordBatch, config: LogConfig, topic_partition: TopicPartition, now_ms: int) -> None:
    """Refuse a batch for its records: a key that is missing, a timestamp that is too old.

    Raises:
        CorruptRecordError: the records cannot be decompressed.
        InvalidRecordError: the records contradict the header.
        RecordValidationError: INVALID_RECORD or INVALID_TIMESTAMP.
        KafkaError: MESSAGE_TOO_LARGE, for too many records or headers.
    """
    data = _plain_records(batch, config, topic_partition)
    summary = _summarize_records(batch, data, config, topic_partition)
    if config.is_compacted and summary.null_key_indexes:
        raise RecordValidationError(
            ErrorCode.INVALID_RECORD,
            "One or more records have been rejected",
            tuple(
                RecordError(
                    index, f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
                )
                for index in summary.null_key_indexes
            ),
        )
    if config.message_timestamp_type == "CreateTime":
        _check_timestamp(summary.min_timestamp_ms, config, now_ms)
        _check_timestamp(summary.max_timestamp_ms, config, now_ms)


def check_timestamps(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    """Refuse a batch for the timestamp type or the largest timestamp in its header.

    Raises:
        RecordValidationError: INVALID_TIMESTAMP.
    """
    if config.message_timestamp_type == "CreateTime":
        if batch.max_timestamp_ms - now_ms > config.message_timestamp_after_max_ms:
            _check_timestamp(batch.max_timestamp_ms, config, now_ms)
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
    """Whether the topic wants another codec than the producer used; control batches stay as they are."""
    if config.compression_type == "producer" or batch.is_control:
        return False
    return batch.compression is not _COMPRESSIONS[config.compression_type]


def recompress(batch: RecordBatch, config: LogConfig, *, base_offset: Offset, leader_epoch: LeaderEpoch) -> RecordBatch:
    """Return the batch written anew with the topic's codec, in a buffer of its own.

    Raises:
        InvalidRecordError: the records contradict the header.
        CorruptRecordError: they cannot be decompressed.
    """
    records = [
        record._replace(offset=record.offset - batch.base_offset + base_offset)
        for record in read_records(batch, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
    ]
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    data = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=_COMPRESSIONS[config.compression_type],
        timestamp_type=batch.timestamp_type,
        log_append_time_ms=batch.max_timestamp_ms if is_append_time else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
    return parse_batch(bytearray(data))
