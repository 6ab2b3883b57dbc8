"""Control records: markers that brokers write into a log; consumers skip them.

A control record's key is int16 version (0), int16 type. A reader must skip types that it does not know.
The value of a transaction's end marker is int16 version (0), int32 coordinator epoch; the quorum's control
records (types 2 to 6) have messages as values, which `ottla.wire.messages` describes.

Source: KIP-98, KIP-595, KIP-630, KIP-853; ControlRecordType and EndTransactionMarker of Kafka.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from ottla.errors import InvalidRecordError
from ottla.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from ottla.wire.records.batch import NO_LEADER_EPOCH
from ottla.wire.records.builder import build_batch
from ottla.wire.records.record import Record

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_VERSION: Final = 0


class ControlRecordType(IntEnum):
    """The int16 in a control record's key."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_key(record_type: ControlRecordType) -> bytes:
    """Return the key of a control record of ``record_type``."""
    return _KEY.pack(_VERSION, record_type)


def parse_control_key(key: bytes | None) -> ControlRecordType:
    """Return a control record's type; UNKNOWN for one that is newer than this code.

    Raises:
        InvalidRecordError: the key is missing, too short, or has a negative version.
    """
    number = _read_versioned(_KEY, key, "a control record's key", "type")
    try:
        return ControlRecordType(number)
    except ValueError:
        return ControlRecordType.UNKNOWN


def end_transaction_value(coordinator_epoch: int) -> bytes:
    """Return the value of an ABORT or COMMIT marker."""
    return _MARKER.pack(_VERSION, coordinator_epoch)


def parse_end_transaction_value(value: bytes | None) -> int:
    """Return the coordinator epoch of an ABORT or COMMIT marker.

    Raises:
        InvalidRecordError: the value is missing, too short, or has a negative version.
    """
    return _read_versioned(_MARKER, value, "a transaction marker's value", "epoch")


def _read_versioned(layout: Struct, data: bytes | None, what: str, content: str) -> int:
    """Return the number after a version; later versions may add bytes after it."""
    if data is None or len(data) < layout.size:
        held = "is null" if data is None else f"has {len(data)} bytes"
        raise InvalidRecordError(f"{what} {held}; version and {content} take {layout.size}")
    version, number = layout.unpack_from(data)
    if version < 0:
        raise InvalidRecordError(f"{what} has version {version}; versions start at 0")
    return int(number)


def build_end_transaction_marker(
    record_type: ControlRecordType,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: Offset = 0,
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH,
) -> bytes:
    """Return the batch with the one record that ends a producer's transaction: ABORT or COMMIT."""
    assert record_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT), "only these two end a transaction"
    record = Record(base_offset, timestamp_ms, control_key(record_type), end_transaction_value(coordinator_epoch))
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
