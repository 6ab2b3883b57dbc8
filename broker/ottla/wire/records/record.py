"""The records inside a batch: read in full, or only walked to see that they are what the header says.

A record (varints are zigzag, as in protocol buffers): varint size of what follows; int8 attributes (unused);
varlong timestamp delta and varint offset delta, both relative to the batch's base; varint key size and key,
varint value size and value (size -1 is null); varint header count, then per header varint key size, key,
varint value size, value (size -1 is null).

Source: KIP-98; DefaultRecord and LogValidator of Kafka.
"""

from typing import NamedTuple, TypeAlias

from ottla.errors import InvalidRecordError
from ottla.ports import Buffer
from ottla.types import Offset
from ottla.wire.records.batch import RecordBatch
from ottla.wire.records.compression import decompress

Header: TypeAlias = tuple[str, bytes | None]


class Record(NamedTuple):
    """One record with its absolute offset and timestamp; key and value own their bytes."""

    offset: Offset
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordsSummary(NamedTuple):
    """What `validate_records` learns on its walk."""

    record_count: int
    min_timestamp_ms: int
    """The smallest timestamp that the records themselves carry; -1 without records."""
    max_timestamp_ms: int
    max_timestamp_offset: Offset
    """The offset of the first record with that timestamp; -1 without records."""
    null_key_indexes: tuple[int, ...]
    """Which records (from 0) have no key: what a compacted topic refuses; at most the first 100 of them."""


def read_records(batch: RecordBatch, *, size_bytes_max: int) -> list[Record]:
    """Return every record of ``batch``, in order.

    Args:
        batch: from `parse_batch`; its CRC is the caller's business.
        size_bytes_max: the most that the records may decompress to.

    Raises:
        CorruptRecordError: the records cannot be decompressed or are more than ``size_bytes_max``.
        InvalidRecordError: the records contradict the batch's header or themselves.
    """
    raise NotImplementedError


def validate_records(batch: RecordBatch, *, size_bytes_max: int) -> RecordsSummary:
    """Walk the records of a batch that a producer sent, without making keys, values or headers.

    Checks that sizes fit into each other, that offset deltas are 0, 1, ... and that there are as many records
    as the header says. Does not compare timestamps with the header's: a broker does not trust that one
    anyway.

    Args:
        batch: from `parse_batch`; its CRC is the caller's business.
        size_bytes_max: the most that the records may decompress to.

    Raises:
        CorruptRecordError: the records cannot be decompressed or are more than ``size_bytes_max``.
        InvalidRecordError: the records contradict the batch's header or themselves.

    Source: LogValidator of Kafka (validation of batches that keep their form).
    """
    raise NotImplementedError
