"""The records inside a batch: read in full, or only walked to compare them with the header.

A record (varints are zigzag, as in protocol buffers): varint size of what follows; int8 attributes (unused);
varlong timestamp delta and varint offset delta, both relative to the batch's base; varint key size and key,
varint value size and value (size -1 is null); varint header count, then per header varint key size, key,
varint value size, value (size -1 is null).

Source: KIP-98; DefaultRecord and LogValidator of Kafka.
"""

from typing import Final, NamedTuple, TypeAlias

from ottla.errors import InvalidRecordError
from ottla.types import Offset
from ottla.wire.records.batch import NO_TIMESTAMP, RecordBatch, TimestampType
from ottla.wire.records.compression import decompress
from ottla.wire.records.varint import ZIGZAG, read_varint, read_varlong

NULL_KEY_INDEXES_MAX: Final = 100
HEADERS_MAX: Final = 2**31 - 1
"""A record cannot say that it has more."""
_NULL_SIZE: Final = -1
_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp; key and value own their bytes."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class TooManyHeadersError(InvalidRecordError):
    """A record may be valid, but has more headers than the caller allows."""


class RecordsSummary(NamedTuple):
    """The result of `validate_records`."""

    record_count: int
    min_timestamp_ms: int
    """The smallest timestamp of the records themselves; -1 without records."""
    max_timestamp_ms: int
    max_timestamp_offset: Offset
    """The offset of the first record with that timestamp; -1 without records."""
    null_key_indexes: tuple[int, ...]
    """The indexes of records without a key, which a compacted topic rejects; at most the first 100 of them."""


# Half the cost of calling the class, whose __new__ is written in Python.
_NEW = tuple.__new__


def read_records(batch: RecordBatch, *, size_bytes_max: int) -> list[Record]:
    """Return every record of ``batch``, in order.

    Offsets must ascend and stay at or below the batch's last offset; they may have gaps, because compaction
    removes records. With LogAppendTime, the header's max_timestamp is the timestamp of every record.

    Args:
        batch: from `parse_batch`; its CRC is the caller's business.
        size_bytes_max: the most that the records may decompress to.

    Raises:
        CorruptRecordError: the records cannot be decompressed or are more than ``size_bytes_max``.
        InvalidRecordError: the records contradict the batch's header or themselves.
    """
    data = decompress(batch.compression, batch.payload, size_bytes_max=size_bytes_max)
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    append_time_ms = batch.max_timestamp_ms if is_append_time else None
    base_offset, base_timestamp_ms = batch.base_offset, batch.base_timestamp_ms
    records: list[Record] = []
    position, previous, last_offset = 0, base_offset - 1, batch.last_offset
    try:
        for _ in range(batch.record_count):
            position, end = read_size(data, position)
            record, position = _read_record(data, position, end, base_offset, base_timestamp_ms, append_time_ms)
            if position != end:
                raise size_error(position, end)
            if not previous < record.offset <= last_offset:
                raise InvalidRecordError(
                    f"it has offset {record.offset} after {previous}, in a batch up to {last_offset}"
                )
            previous = record.offset
            records.append(record)
    except IndexError:
        raise record_error(batch, len(records), "the bytes end within it") from None
    except InvalidRecordError as error:
        raise record_error(batch, len(records), error.message) from None
    check_end(batch, len(records), len(data) - position)
    return records


def validate_records(batch: RecordBatch, *, size_bytes_max: int) -> RecordsSummary:
    """Walk the records of a batch that a producer sent, without creating keys, values or headers.

    Checks that sizes are consistent, that offset deltas are 0, 1, ... and that the number of records is that of the
    header. Does not compare timestamps with the header's: a broker replaces that one.

    Args:
        batch: from `parse_batch`; its CRC is the caller's business.
        size_bytes_max: the most that the records may decompress to.

    Raises:
        CorruptRecordError: the records cannot be decompressed or are more than ``size_bytes_max``.
        InvalidRecordError: the records contradict the batch's header or themselves.

    Source: LogValidator of Kafka (batches that are not recompressed).
    """
    return validate_plain_records(batch, decompress(batch.compression, batch.payload, size_bytes_max=size_bytes_max))


def validate_plain_records(batch: RecordBatch, data: bytes, *, headers_each_max: int = HEADERS_MAX) -> RecordsSummary:
    """Validate ``data``, the batch's decompressed records, as `validate_records` does.

    Raises:
        InvalidRecordError: the records contradict the batch's header or themselves, or one of them has more than
            ``headers_each_max`` headers.
    """
    position = index = 0
    deltas_ms: list[int] = []
    null_key_indexes: list[int] = []
    try:
        for index in range(batch.record_count):
            position, end = read_size(data, position)
            timestamp_delta_ms, offset_delta, key_size_bytes, _, position = walk_record(
                data, position, end, headers_each_max
            )
            if position != end:
                raise size_error(position, end)
            if offset_delta != index:
                raise InvalidRecordError(f"it has offset delta {offset_delta}")
            if key_size_bytes < 0 and len(null_key_indexes) < NULL_KEY_INDEXES_MAX:
                null_key_indexes.append(index)
            deltas_ms.append(timestamp_delta_ms)
    except IndexError:
        raise record_error(batch, index, "the bytes end within it") from None
    except InvalidRecordError as error:
        raise record_error(batch, index, error.message) from None
    check_end(batch, batch.record_count, len(data) - position)
    if batch.last_offset_delta != batch.record_count - 1:
        raise InvalidRecordError(
            f"batch at offset {batch.base_offset} says that it has {batch.record_count} records and that its last "
            f"offset delta is {batch.last_offset_delta}"
        )
    return _summarize(batch, deltas_ms, tuple(null_key_indexes))


def _summarize(batch: RecordBatch, deltas_ms: list[int], null_key_indexes: tuple[int, ...]) -> RecordsSummary:
    if not deltas_ms:
        return RecordsSummary(0, NO_TIMESTAMP, NO_TIMESTAMP, -1, null_key_indexes)
    min_delta_ms, max_delta_ms = min(deltas_ms), max(deltas_ms)
    base_ms, index = batch.base_timestamp_ms, deltas_ms.index(max_delta_ms)
    if base_ms + max_delta_ms > _INT64_MAX or base_ms + min_delta_ms < _INT64_MIN:
        raise record_error(batch, index, "its timestamp is more than 64 bits")
    return RecordsSummary(
        record_count=len(deltas_ms),
        min_timestamp_ms=base_ms + min_delta_ms,
        max_timestamp_ms=base_ms + max_delta_ms,
        max_timestamp_offset=batch.base_offset + index,
        null_key_indexes=null_key_indexes,
    )


def read_size(data: bytes, position: int) -> tuple[int, int]:
    """Return the position after the size of the record at ``position``, and its end according to that size."""
    byte = data[position]
    if byte < 0x80:
        size_bytes, position = ZIGZAG[byte], position + 1
    else:
        size_bytes, position = read_varint(data, position)
    left_bytes = len(data) - position
    if not 0 <= size_bytes <= left_bytes:
        raise InvalidRecordError(f"it says that it has {size_bytes} bytes; {left_bytes} are left")
    return position, position + size_bytes


def _read_record(
    data: bytes,
    position: int,
    end: int,
    base_offset: Offset,
    base_timestamp_ms: int,
    append_time_ms: int | None,
) -> tuple[Record, int]:
    """Return the record whose size was read, and the end of its last field.

    A field that exceeds ``end`` takes bytes of the next record, or fewer than its size at the end of the data: the
    caller detects that by the returned position. One-byte varints are read in place: a call costs more than they do.
    """
    position += 1  # attributes: unused
    byte = data[position]
    if byte < 0x80:
        timestamp_ms, position = base_timestamp_ms + ZIGZAG[byte], position + 1
    else:
        delta_ms, position = read_varlong(data, position)
        timestamp_ms = base_timestamp_ms + delta_ms
    byte = data[position]
    if byte < 0x80:
        offset_delta, position = ZIGZAG[byte], position + 1
    else:
        offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position)
    value, position = _read_bytes(data, position)
    headers: tuple[Header, ...] = ()
    if data[position]:
        headers, position = _read_headers(data, position, end)
    else:
        position += 1
    if append_time_ms is not None:
        timestamp_ms = append_time_ms
    elif not _INT64_MIN <= timestamp_ms <= _INT64_MAX:
        raise InvalidRecordError(f"its timestamp {timestamp_ms} is more than 64 bits")
    return _NEW(Record, (base_offset + offset_delta, timestamp_ms, key, value, headers)), position


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Return a sized field, None when its size is negative, and its end according to the size."""
    byte = data[position]
    if byte < 0x80:
        size_bytes, position = ZIGZAG[byte], position + 1
    else:
        size_bytes, position = read_varint(data, position)
    if size_bytes < 0:
        return None, position
    end = position + size_bytes
    return data[position:end], end


def _read_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = _read_header_count(data, position, end)
    headers: list[Header] = []
    for _ in range(count):
        key, position = _read_bytes(data, position)
        if key is None:
            raise InvalidRecordError("one of its headers has no key")
        value, position = _read_bytes(data, position)
        # Java reads malformed UTF-8 the same way, rather than losing the record.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position


def _read_header_count(data: bytes, position: int, end: int) -> tuple[int, int]:
    byte = data[position]
    count, position = (ZIGZAG[byte], position + 1) if byte < 0x80 else read_varint(data, position)
    # A header has at least its two sizes, of a byte each.
    if not 0 <= count <= (end - position) // 2:
        raise InvalidRecordError(f"it says that it has {count} headers; {end - position} bytes are left in it")
    return count, position


def walk_record(data: bytes, position: int, end: int, headers_max: int) -> tuple[int, int, int, int, int]:
    """Return the record's timestamp delta, offset delta, key size, number of headers, and the end of the headers."""
    timestamp_delta_ms, offset_delta, key_size_bytes, position = _walk_to_headers(data, position)
    if not data[position]:
        return timestamp_delta_ms, offset_delta, key_size_bytes, 0, position + 1
    header_count, _ = _read_header_count(data, position, end)
    position = skip_headers(data, position, end, headers_max)
    return timestamp_delta_ms, offset_delta, key_size_bytes, header_count, position


def _walk_to_headers(data: bytes, position: int) -> tuple[int, int, int, int]:
    """Return timestamp delta, offset delta and key size of the record, and the position of its header count."""
    position += 1  # attributes: unused
    byte = data[position]
    if byte < 0x80:
        timestamp_delta_ms, position = ZIGZAG[byte], position + 1
    else:
        timestamp_delta_ms, position = read_varlong(data, position)
    byte = data[position]
    if byte < 0x80:
        offset_delta, position = ZIGZAG[byte], position + 1
    else:
        offset_delta, position = read_varint(data, position)
    key_size_bytes, position = _skip_bytes(data, position)
    _, position = _skip_bytes(data, position)
    return timestamp_delta_ms, offset_delta, key_size_bytes, position


def _skip_bytes(data: bytes, position: int) -> tuple[int, int]:
    """Return a field's size, -1 for null, and its end according to the size."""
    byte = data[position]
    if byte < 0x80:
        size_bytes, position = ZIGZAG[byte], position + 1
    else:
        size_bytes, position = read_varint(data, position)
    if size_bytes < _NULL_SIZE:
        # JVM Kafka treats any negative size as null; librdkafka never returns from a consume of such a record.
        raise InvalidRecordError(f"one of its fields says that it has {size_bytes} bytes")
    return size_bytes, position + size_bytes if size_bytes > 0 else position


def skip_headers(data: bytes, position: int, end: int, headers_max: int) -> int:
    """Return the end of the record's headers, of which at most ``headers_max`` are read."""
    count, position = _read_header_count(data, position, end)
    if count > headers_max:
        raise TooManyHeadersError(f"it has {count} headers; at most {headers_max} are allowed")
    for _ in range(count):
        key_size_bytes, position = _skip_bytes(data, position)
        if key_size_bytes < 0:
            raise InvalidRecordError("one of its headers has no key")
        _, position = _skip_bytes(data, position)
    return position


def size_error(position: int, end: int) -> InvalidRecordError:
    """Return the error of a record whose fields end at ``position``, and according to its size at ``end``."""
    return InvalidRecordError(f"its fields end {abs(position - end)} bytes {_side(position, end)} its size says")


def _side(position: int, end: int) -> str:
    return "before" if position < end else "after"


def check_end(batch: RecordBatch, record_count: int, left_bytes: int) -> None:
    """Check the header's count, which must not be negative, and that no byte is left."""
    if batch.record_count < 0:
        raise InvalidRecordError(f"batch at offset {batch.base_offset} says that it has {batch.record_count} records")
    if left_bytes:
        raise InvalidRecordError(
            f"batch at offset {batch.base_offset} says that it has {record_count} records; "
            f"{left_bytes} bytes are left after them"
        )


def record_error(batch: RecordBatch, index: int, reason: str | None) -> InvalidRecordError:
    """Return the error of record ``index`` of ``batch``."""
    return InvalidRecordError(
        f"record {index} of {batch.record_count} in the batch at offset {batch.base_offset}: {reason}"
    )
