"""Message sets of magic 0 and 1, which Kafka wrote before 0.11 and which logs may still hold. Read only.

A message set is messages one after the other, with no header of its own. All numbers are big-endian:

====== ===== ====== ================================================================================
offset bytes type   field of a message
====== ===== ====== ================================================================================
0      8     int64  offset
8      4     int32  message_size: bytes after this field
12     4     uint32 crc: CRC-32 (zlib's) of everything from ``magic`` to the end of the message
16     1     int8   magic: 0 or 1
17     1     int8   attributes: bits 0-2 compression, bit 3 timestamp type (magic 1)
18     8     int64  timestamp (magic 1 only)
...    4     int32  key size, -1 for null; then the key
...    4     int32  value size, -1 for null; then the value
====== ===== ====== ================================================================================

A compressed message wraps a message set in its value. Wrapped messages of magic 0 have absolute offsets;
those of magic 1 have offsets 0, 1, ... and the wrapper has the last one's absolute offset, and, with
LogAppendTime, the timestamp of all of them. A wrapped message is never itself compressed.

Source: AbstractLegacyRecordBatch, LegacyRecord and ByteBufferLogInputStream of Kafka; KIP-31, KIP-32.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer
from ottla.types import Offset
from ottla.wire.records.batch import (
    COMPRESSION_MASK,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TimestampType,
)
from ottla.wire.records.compression import Compression, decompress
from ottla.wire.records.record import Record

_HEADER = Struct(">qiIbb")
_SIZE = Struct(">i")
_TIMESTAMP = Struct(">q")
_CRC_END: Final = 16
"""The position in a message from which on its CRC covers the bytes."""
_SIZE_MIN_BYTES: Final = (14, 22)
"""``message_size`` of a message with null key and null value, by magic."""


class LegacyMessage(NamedTuple):
    """One message, or one of those in a compressed message, with its fields for a dump."""

    record: Record
    magic: int
    crc: int
    is_crc_valid: bool
    """Whether the message's CRC, and its wrapper's, match the bytes."""
    compression: Compression
    """The codec of the wrapper; NONE for a message of its own."""
    timestamp_type: TimestampType | None
    """None with magic 0, which has no timestamps: the record's is -1."""
    position: int
    """The position of the message, or of its wrapper, in the buffer."""
    size_bytes: int
    """The whole message, or its wrapper, with offset and size."""


class _Message(NamedTuple):
    """One stored message, a wrapper or not."""

    position: int
    end: int
    offset: Offset
    magic: int
    crc: int
    is_crc_valid: bool
    compression: Compression
    timestamp_type: TimestampType | None
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_message_set(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int, strict: bool = False
) -> Iterator[LegacyMessage]:
    """Yield every message of ``buffer`` from ``position``, those in compressed messages one by one.

    A partial message at the end of the buffer ends the iteration, because fetch responses have such messages; with
    ``strict`` it is an error. A CRC that does not match is returned, not raised; a corrupt wrapper then usually
    raises.

    Args:
        buffer: only messages of magic 0 and 1; for batches of magic 2 see `iterate_batches`.
        position: of the first message.
        size_bytes_max: limit of the decompressed size of one message.
        strict: whether a partial message is an error.

    Raises:
        CorruptRecordError: a size is below that of an empty message, the magic is neither 0 nor 1, the value
            cannot be decompressed or is more than ``size_bytes_max``, or the wrapped messages break the rules
            above.
    """
    for message in _iterate_messages(buffer, position, strict=strict):
        if message.compression is Compression.NONE:
            yield _explain(message, message)
        else:
            yield from _unwrap(message, size_bytes_max)


def _explain(message: _Message, wrapper: _Message) -> LegacyMessage:
    return LegacyMessage(
        record=Record(message.offset, message.timestamp_ms, message.key, message.value),
        magic=message.magic,
        crc=message.crc,
        is_crc_valid=message.is_crc_valid and wrapper.is_crc_valid,
        compression=wrapper.compression,
        timestamp_type=wrapper.timestamp_type,
        position=wrapper.position,
        size_bytes=wrapper.end - wrapper.position,
    )


def _unwrap(wrapper: _Message, size_bytes_max: int) -> Iterator[LegacyMessage]:
    """Yield the messages in ``wrapper`` with absolute offsets and the timestamps for readers."""
    if wrapper.value is None:
        raise CorruptRecordError(f"compressed message at offset {wrapper.offset} has no value to decompress")
    data = decompress(wrapper.compression, wrapper.value, size_bytes_max=size_bytes_max, magic=wrapper.magic)
    messages = list(_iterate_messages(data, 0, strict=True))
    if not messages:
        raise CorruptRecordError(f"compressed message at offset {wrapper.offset} wraps no messages")
    base_offset = _base_offset(wrapper, messages[-1].offset)
    is_append_time = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    for message in messages:
        if message.magic != wrapper.magic or message.compression is not Compression.NONE:
            raise CorruptRecordError(
                f"compressed message at offset {wrapper.offset} (magic {wrapper.magic}) wraps a message of magic "
                f"{message.magic}, compression {message.compression.label}; it may wrap plain ones of its magic"
            )
        timestamp_ms = wrapper.timestamp_ms if is_append_time else message.timestamp_ms
        absolute = message._replace(offset=base_offset + message.offset, timestamp_ms=timestamp_ms)
        yield _explain(absolute, wrapper)


def _base_offset(wrapper: _Message, last_inner_offset: Offset) -> Offset:
    """Return the offset to which the wrapped messages' offsets are relative."""
    # A wrapper's offset of 0 may also mean that no broker has assigned one yet.
    if wrapper.magic == 0 or wrapper.offset == 0:
        return 0
    if wrapper.offset < last_inner_offset:
        raise CorruptRecordError(
            f"compressed message at offset {wrapper.offset} wraps messages up to relative offset "
            f"{last_inner_offset}: they would start below 0"
        )
    return wrapper.offset - last_inner_offset


def _iterate_messages(buffer: Buffer, position: int, *, strict: bool) -> Iterator[_Message]:
    """Yield the messages that are stored in ``buffer``, without unwrapping."""
    end = len(buffer)
    while position < end:
        if not strict and _is_partial(buffer, position, end):
            return
        message = _parse_message(buffer, position)
        yield message
        position = message.end


def _is_partial(buffer: Buffer, position: int, end: int) -> bool:
    """Whether the message at ``position`` may be valid, but does not end in ``buffer``."""
    left_bytes = end - position
    if left_bytes < LOG_OVERHEAD_BYTES:
        return True
    (size_bytes,) = _SIZE.unpack_from(buffer, position + 8)
    return bool(size_bytes >= _SIZE_MIN_BYTES[0] and size_bytes > left_bytes - LOG_OVERHEAD_BYTES)


def _parse_message(buffer: Buffer, position: int) -> _Message:
    left_bytes = len(buffer) - position
    if left_bytes < _HEADER.size:
        raise CorruptRecordError(f"message at byte {position} has {left_bytes} bytes; its header has {_HEADER.size}")
    offset, size_bytes, crc, magic, attributes = _HEADER.unpack_from(buffer, position)
    if magic not in (0, 1):
        raise CorruptRecordError(f"message at byte {position} has magic {magic}; message sets have 0 and 1")
    if not _SIZE_MIN_BYTES[magic] <= size_bytes <= left_bytes - LOG_OVERHEAD_BYTES:
        raise CorruptRecordError(
            f"message at byte {position} gives its size as {size_bytes}; the least for magic {magic} is "
            f"{_SIZE_MIN_BYTES[magic]}, and {left_bytes - LOG_OVERHEAD_BYTES} bytes are left"
        )
    end = position + LOG_OVERHEAD_BYTES + size_bytes
    data = bytes(memoryview(buffer)[position:end])
    codec = attributes & COMPRESSION_MASK
    if codec > max(Compression):
        raise CorruptRecordError(f"message at byte {position} names compression codec {codec}; Kafka has 0 to 4")
    timestamp_type, timestamp_ms, at = None, NO_TIMESTAMP, _HEADER.size
    if magic == 1:
        timestamp_type = TimestampType(attributes & TIMESTAMP_TYPE_BIT != 0)
        (timestamp_ms,) = _TIMESTAMP.unpack_from(data, at)
        at += _TIMESTAMP.size
    key, at = _read_bytes(data, at, position)
    value, at = _read_bytes(data, at, position)
    if at != len(data):
        raise CorruptRecordError(f"message at byte {position} has {len(data) - at} bytes after its value")
    return _Message(
        position=position,
        end=end,
        offset=offset,
        magic=magic,
        crc=crc,
        is_crc_valid=zlib.crc32(memoryview(data)[_CRC_END:]) == crc,
        compression=Compression(codec),
        timestamp_type=timestamp_type,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
    )


def _read_bytes(data: bytes, at: int, position: int) -> tuple[bytes | None, int]:
    """Return a field with an int32 size, None when that is negative, and its end."""
    left_bytes = len(data) - at - _SIZE.size
    if left_bytes < 0:
        raise CorruptRecordError(f"message at byte {position} ends before the size of its key or value")
    (size_bytes,) = _SIZE.unpack_from(data, at)
    at += _SIZE.size
    if size_bytes < 0:
        return None, at
    if size_bytes > left_bytes:
        raise CorruptRecordError(
            f"message at byte {position} has a key or value of {size_bytes} bytes; {left_bytes} are left in it"
        )
    return data[at : at + size_bytes], at + size_bytes
