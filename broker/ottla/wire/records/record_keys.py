"""The keys of a batch's records, and a batch of some of its records, whose bytes are copied.

For compaction, which decides by the key and needs no objects of values and headers. It reads every record of a topic
twice, so a record costs little more than its key: a third of what `record.read_records` and `builder.build_batch` do.

Source: MemoryRecords.filterTo of Kafka, which writes every retained record again.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.errors import InvalidRecordError
from ottla.types import Offset
from ottla.wire.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
)
from ottla.wire.records.builder import join_batch
from ottla.wire.records.compression import Compression, compress
from ottla.wire.records.record import HEADERS_MAX, check_end, read_size, record_error, size_error, skip_headers
from ottla.wire.records.varint import ZIGZAG, encode_varint, read_varint, read_varlong

_KEPT_ATTRIBUTES: Final = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
_ATTRIBUTES: Final = b"\0"
_INT64_MAX: Final = 2**63 - 1
_NEW = tuple.__new__


class RecordKey(NamedTuple):
    """One record's key, and its place in the decompressed records.

    Attributes:
        is_tombstone: the record has no value.
        start: the position of its size.
        end: the position after its headers.
    """

    offset: Offset
    key: bytes | None
    is_tombstone: bool
    start: int
    end: int


def read_record_keys(batch: RecordBatch, data: bytes) -> list[RecordKey]:  # noqa: C901, PLR0912, PLR0915
    """Return the key of every record of ``batch``, in order; ``data`` is its decompressed records.

    Varints of one byte, and of two where they are frequent, are read in place: a call costs more than they do.

    Raises:
        InvalidRecordError: the records contradict the batch's header or themselves.
    """
    base_offset, last_offset = batch.base_offset, batch.last_offset
    keys: list[RecordKey] = []
    end, previous = 0, base_offset - 1
    try:
        for _ in range(batch.record_count):
            start = end
            byte, second = data[start], data[start + 1]
            if byte < 0x80:
                at = start + 1
                end = at + ZIGZAG[byte]
            elif second < 0x80 and not byte & 1:
                at = start + 2
                end = at + (second << 6) + (byte - 0x80 >> 1)
            else:
                at, end = read_size(data, start)
            at += 1  # attributes: unused
            while data[at] >= 0x80:  # the timestamp delta
                at += 1
            byte, second = data[at + 1], data[at + 2]
            if byte < 0x80:
                offset, at = base_offset + ZIGZAG[byte], at + 2
            elif second < 0x80 and not byte & 1:
                offset, at = base_offset + (second << 6) + (byte - 0x80 >> 1), at + 3
            else:
                delta, at = read_varint(data, at + 1)
                offset = base_offset + delta
            byte = data[at]
            size, at = (ZIGZAG[byte], at + 1) if byte < 0x80 else read_varint(data, at)
            key = None
            if size >= 0:
                key = data[at : at + size]
                at += size
            byte, second = data[at], data[at + 1]
            if byte < 0x80:
                size, at = ZIGZAG[byte], at + 1
            elif second < 0x80 and not byte & 1:
                size, at = (second << 6) + (byte - 0x80 >> 1), at + 2
            else:
                size, at = read_varint(data, at)
            is_tombstone = size < 0
            if not is_tombstone:
                at += size
            at = skip_headers(data, at, end, HEADERS_MAX) if data[at] else at + 1
            if at != end:
                raise size_error(at, end)
            if not previous < offset <= last_offset:
                raise InvalidRecordError(f"it has offset {offset} after {previous}, in a batch up to {last_offset}")
            previous = offset
            keys.append(_NEW(RecordKey, (offset, key, is_tombstone, start, end)))
    except IndexError:
        raise record_error(batch, len(keys), "the bytes end within it") from None
    except InvalidRecordError as error:
        raise record_error(batch, len(keys), error.message) from None
    check_end(batch, len(keys), len(data) - end)
    return keys


def build_retained_batch(
    batch: RecordBatch, data: bytes, retained: Sequence[RecordKey], *, delete_horizon_ms: int | None
) -> bytes:
    """Return ``batch`` with the records ``retained`` of its decompressed ``data``, at their offsets, in its codec.

    Everything else of its header stays. Timestamps are relative to the first one, or to the delete horizon; those that
    were relative to another time are written again.

    Raises:
        InvalidRecordError: a timestamp is invalid.
    """
    places = [_read_timestamp(data, record) for record in retained]
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        timestamps_ms = [batch.max_timestamp_ms] * len(places)
    else:
        timestamps_ms = [batch.base_timestamp_ms + delta_ms for delta_ms, _ in places]
    newest_ms = max(timestamps_ms)
    if newest_ms > _INT64_MAX or min(timestamps_ms) < -_INT64_MAX - 1:
        raise InvalidRecordError(f"a timestamp of the batch at offset {batch.base_offset} is more than 64 bits")
    base_ms = timestamps_ms[0] if delete_horizon_ms is None else delete_horizon_ms
    if [base_ms + delta_ms for delta_ms, _ in places] == timestamps_ms:
        records = b"".join([data[record.start : record.end] for record in retained])
    else:
        records = b"".join(
            [
                _replace_timestamp(data, place[1], record.end, timestamp_ms - base_ms)
                for record, place, timestamp_ms in zip(retained, places, timestamps_ms, strict=True)
            ]
        )
    if batch.compression is not Compression.NONE:
        records = compress(batch.compression, records)
    return join_batch(
        HEADER.pack(
            batch.base_offset,
            HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES + len(records),
            batch.leader_epoch,
            MAGIC,
            0,
            batch.attributes & _KEPT_ATTRIBUTES | (0 if delete_horizon_ms is None else DELETE_HORIZON_BIT),
            batch.last_offset_delta,
            base_ms,
            newest_ms,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            len(retained),
        ),
        records,
    )


def _read_timestamp(data: bytes, record: RecordKey) -> tuple[int, int]:
    """Return the timestamp delta of ``record`` in ms, and the position after it."""
    at, _ = read_size(data, record.start)
    at += 1  # attributes
    byte = data[at]
    return (ZIGZAG[byte], at + 1) if byte < 0x80 else read_varlong(data, at)


def _replace_timestamp(data: bytes, start: int, end: int, delta_ms: int) -> bytes:
    """Return a record with another timestamp delta; the rest of it is ``data`` from ``start`` to ``end``."""
    timestamp = encode_varint(delta_ms)
    size = encode_varint(len(_ATTRIBUTES) + len(timestamp) + end - start)
    return b"".join((size, _ATTRIBUTES, timestamp, data[start:end]))
