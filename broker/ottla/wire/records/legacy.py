"""Message sets of magic 0 and 1: what Kafka wrote before 0.11, and what its logs may still hold. Read only.

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

from collections.abc import Iterator
from typing import NamedTuple

from ottla.ports import Buffer
from ottla.wire.records.batch import TimestampType
from ottla.wire.records.compression import Compression
from ottla.wire.records.record import Record


class LegacyMessage(NamedTuple):
    """One message, or one of those that a compressed message wraps, with what a dump explains about it."""

    record: Record
    magic: int
    crc: int
    is_crc_valid: bool
    compression: Compression
    """How the wrapper compressed it; NONE for a message on its own."""
    timestamp_type: TimestampType | None
    """None with magic 0, which has no timestamps: the record's is -1."""
    position: int
    """Where in the buffer the message, or its wrapper, starts."""
    size_bytes: int
    """The whole message, or its wrapper, with offset and size."""


def read_message_set(
    buffer: Buffer, position: int = 0, *, size_bytes_max: int, strict: bool = False
) -> Iterator[LegacyMessage]:
    """Yield every message of ``buffer`` from ``position``, those in compressed messages one by one.

    A message that the end of the buffer cuts off ends the iteration, as fetch responses cut them; with
    ``strict`` it is an error. A CRC that does not match is reported, not raised; a damaged wrapper then
    usually raises.

    Args:
        buffer: only messages of magic 0 and 1; batches of magic 2 are `iterate_batches`' business.
        position: where the first message starts.
        size_bytes_max: the most that one compressed message may decompress to.
        strict: whether a cut-off message is an error.

    Raises:
        CorruptRecordError: a size is below that of an empty message, the magic is neither 0 nor 1, the value
            cannot be decompressed or is more than ``size_bytes_max``, or the wrapped messages break the rules
            above.
    """
    raise NotImplementedError
