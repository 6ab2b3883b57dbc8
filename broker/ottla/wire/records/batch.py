"""A view on one record batch (magic 2), the unit in which Kafka produces, stores, copies and fetches records.

All numbers are big-endian:

====== ===== ====== =====================================================================================
offset bytes type   field
====== ===== ====== =====================================================================================
0      8     int64  base_offset: offset of the first record (given by the broker, not under the CRC)
8      4     int32  batch_length: bytes after this field, so the batch has 12 more
12     4     int32  partition_leader_epoch (given by the broker, not under the CRC); -1 from producers
16     1     int8   magic: 2
17     4     uint32 crc: CRC-32C of everything from ``attributes`` to the end of the batch
21     2     int16  attributes: bits 0-2 compression, 3 timestamp type, 4 transactional, 5 control,
                    6 base_timestamp is the delete horizon (KIP-534), the rest is unused
23     4     int32  last_offset_delta: last offset minus base_offset (kept when compaction removes records)
27     8     int64  base_timestamp: the records' timestamp deltas are relative to it
35     8     int64  max_timestamp; with LogAppendTime the timestamp of every record
43     8     int64  producer_id; -1 when the producer is not idempotent
51     2     int16  producer_epoch; -1 likewise
53     4     int32  base_sequence; -1 likewise
57     4     int32  record_count
61     ...          the records, compressed together by the codec of ``attributes``
====== ===== ====== =====================================================================================

Source: KIP-98 and DefaultRecordBatch of Kafka (format), KIP-101 (leader epoch), KIP-534 (delete horizon).
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final, cast

from ottla.errors import CorruptRecordError
from ottla.ports import Buffer
from ottla.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from ottla.wire.records.compression import Compression
from ottla.wire.records.crc32c import crc32c

HEADER_SIZE_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""``base_offset`` and ``batch_length``, which ``batch_length`` does not count."""
MAGIC_POSITION: Final = 16
"""The position of the magic in a batch, and in a message of the older formats too."""
MAGIC: Final = 2

CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
PRODUCER_EPOCH_MAX: Final = 2**15 - 1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

SEQUENCE_MAX: Final = 2**31 - 1

HEADER = Struct(">qiibIhiqqqhii")
_BASE_OFFSET = Struct(">q")
_LENGTH = Struct(">i")
_CRC = Struct(">I")
_LEADER_EPOCH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")


class TimestampType(IntEnum):
    """The source of the records' timestamps: the producer, or the broker that appended them."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Kafka's name in configurations and tools."""
        return "CreateTime" if self is TimestampType.CREATE_TIME else "LogAppendTime"


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number ``increment`` (>= 0) after ``sequence``; after 2^31 - 1 comes 0."""
    return (sequence + increment) & SEQUENCE_MAX


class RecordBatch:
    """One whole batch inside a buffer that belongs to the caller; nothing is copied.

    The fields are read once, when the view is created: they are those of the header; the records may still contradict
    it (`read_records` and `validate_records` check that). The view keeps the buffer alive.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "batch_length",
        "buffer",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp_ms",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    buffer: Buffer
    position: int
    """The position of the batch in ``buffer``."""
    base_offset: Offset
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int) -> None:
        """Read the header at ``position``; `parse_batch` also checks it.

        Raises:
            struct.error: fewer than 61 bytes are left.
        """
        self.buffer = buffer
        self.position = position
        (
            self.base_offset,
            self.batch_length,
            self.leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(buffer, position)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}-{self.last_offset}, {self.record_count} records, "
            f"{self.size_bytes} bytes, leader epoch {self.leader_epoch}, {self.compression.label}, "
            f"producer {self.producer_id}/{self.producer_epoch} from sequence {self.base_sequence})"
        )

    @property
    def size_bytes(self) -> int:
        """The whole batch, with the 12 bytes before ``leader_epoch``."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def end_position(self) -> int:
        """The position of the next batch in ``buffer``."""
        return self.position + self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def data(self) -> memoryview:
        """The whole batch; a view on the caller's buffer."""
        return memoryview(self.buffer)[self.position : self.end_position]

    @property
    def payload(self) -> memoryview:
        """The records as they are stored, compressed or not; a view on the caller's buffer."""
        return memoryview(self.buffer)[self.position + HEADER_SIZE_BYTES : self.end_position]

    @property
    def last_offset(self) -> Offset:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> Offset:
        """The offset that the batch after this one may start with."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number, 0 to 2^31 - 1; -1 without a producer id's sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """The codec of the records.

        Raises:
            CorruptRecordError: the header names a codec that Kafka does not have.
        """
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            raise CorruptRecordError(
                f"batch at offset {self.base_offset} names compression codec "
                f"{self.attributes & COMPRESSION_MASK}; Kafka has 0 to 4"
            ) from None

    @property
    def is_compressed(self) -> bool:
        return self.attributes & COMPRESSION_MASK != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return _TIMESTAMP_TYPES[(self.attributes & TIMESTAMP_TYPE_BIT) >> 3]

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which compaction may remove the batch's tombstones; None when it is not set (KIP-534)."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    def compute_crc(self) -> int:
        """Return the CRC-32C of the batch's bytes, whatever the header says."""
        start = self.position
        end = start + self.batch_length + LOG_OVERHEAD_BYTES
        return crc32c(memoryview(self.buffer)[start + ATTRIBUTES_POSITION : end])

    def check_crc(self) -> None:
        """Compare the header's CRC-32C with the bytes.

        Raises:
            CorruptRecordError: they differ: a bit was flipped, or the batch was not finished.
        """
        computed = self.compute_crc()
        if computed != self.crc:
            raise CorruptRecordError(
                f"batch at offset {self.base_offset} ({self.size_bytes} bytes) has CRC-32C {computed:#010x}, "
                f"its header says {self.crc:#010x}: the bytes were corrupted after the producer created them"
            )

    def patch(self, base_offset: Offset, leader_epoch: LeaderEpoch) -> None:
        """Write the two fields that an appending broker assigns, and no CRC covers, into a writable buffer."""
        buffer = cast(memoryview, self.buffer)
        _BASE_OFFSET.pack_into(buffer, self.position, base_offset)
        _LEADER_EPOCH.pack_into(buffer, self.position + LOG_OVERHEAD_BYTES, leader_epoch)
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch

    def set_max_timestamp(self, timestamp_type: TimestampType, max_timestamp_ms: int) -> None:
        """Write timestamp type and maximum into a writable buffer; recompute the CRC when either changes.

        With LogAppendTime, ``max_timestamp_ms`` becomes the timestamp of every record; their deltas do not change.
        """
        attributes = self.attributes & ~TIMESTAMP_TYPE_BIT
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            attributes |= TIMESTAMP_TYPE_BIT
        if attributes == self.attributes and max_timestamp_ms == self.max_timestamp_ms:
            return
        buffer = cast(memoryview, self.buffer)
        _ATTRIBUTES.pack_into(buffer, self.position + ATTRIBUTES_POSITION, attributes)
        _TIMESTAMP.pack_into(buffer, self.position + MAX_TIMESTAMP_POSITION, max_timestamp_ms)
        self.attributes = attributes
        self.max_timestamp_ms = max_timestamp_ms
        self.crc = self.compute_crc()
        _CRC.pack_into(buffer, self.position + CRC_POSITION, self.crc)


_TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_UNPACK_LENGTH = _LENGTH.unpack_from
_LENGTH_MIN: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES


def parse_batch(buffer: Buffer, position: int = 0) -> RecordBatch:
    """Return a view on the batch at ``position``, after checking that all of it is in the buffer.

    Neither CRC nor records are checked: `RecordBatch.check_crc` and `validate_records` do that.

    Raises:
        CorruptRecordError: fewer bytes are left than a header or the header's length needs, the length is below that
            of an empty batch, or the magic is not 2.
    """
    left_bytes = len(buffer) - position
    if left_bytes < HEADER_SIZE_BYTES:
        raise _header_error(buffer, position, left_bytes)
    batch = RecordBatch(buffer, position)
    length = batch.batch_length
    if batch.magic != MAGIC or length < _LENGTH_MIN or length > left_bytes - LOG_OVERHEAD_BYTES:
        raise _header_error(buffer, position, left_bytes)
    return batch


def _header_error(buffer: Buffer, position: int, left_bytes: int) -> CorruptRecordError:
    """Return the error of the header at ``position``; the magic is checked first: older messages may be shorter."""
    if left_bytes > MAGIC_POSITION and buffer[position + MAGIC_POSITION] != MAGIC:
        magic = int.from_bytes(bytes(buffer[position + MAGIC_POSITION : position + MAGIC_POSITION + 1]), signed=True)
        return CorruptRecordError(f"record batch at byte {position} has magic {magic}; a record batch has {MAGIC}")
    if left_bytes < HEADER_SIZE_BYTES:
        return CorruptRecordError(
            f"record batch at byte {position} has {left_bytes} bytes; a header has {HEADER_SIZE_BYTES}"
        )
    (length,) = _UNPACK_LENGTH(buffer, position + 8)
    if length < _LENGTH_MIN:
        return CorruptRecordError(
            f"record batch at byte {position} gives its length as {length}; the least is {_LENGTH_MIN}"
        )
    return CorruptRecordError(
        f"record batch at byte {position} gives its length as {length}; "
        f"{left_bytes - LOG_OVERHEAD_BYTES} bytes are left"
    )


def iterate_batches(buffer: Buffer, position: int = 0, *, strict: bool = False) -> Iterator[RecordBatch]:
    """Yield a view on each batch of ``buffer``, in order.

    A partial batch at the end of the buffer ends the iteration, because fetch responses have such batches; with
    ``strict`` it is an error. Bytes that cannot be the start of a batch are always an error.

    Raises:
        CorruptRecordError: as `parse_batch`.
    """
    end = len(buffer)
    while position < end:
        try:
            batch = parse_batch(buffer, position)
        except CorruptRecordError:
            if not strict and _is_partial(buffer, position, end):
                return
            raise
        yield batch
        position = batch.end_position


def _is_partial(buffer: Buffer, position: int, end: int) -> bool:
    """Whether the batch at ``position`` may be valid, but does not end in ``buffer``."""
    left_bytes = end - position
    if left_bytes < LOG_OVERHEAD_BYTES:
        return True
    (length,) = _UNPACK_LENGTH(buffer, position + 8)
    return bool(length >= _LENGTH_MIN and length > left_bytes - LOG_OVERHEAD_BYTES)
