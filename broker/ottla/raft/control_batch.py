"""Control batches of the quorum's log: leader changes, the voter set, and the first and last batch of a snapshot.

The key of a control record says its type (`ottla.wire.records.control`); the value is the message in version 0.
Source: KIP-595, KIP-630, KIP-853; MemoryRecordsBuilder and ControlRecord of Apache Kafka.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.errors import InvalidRecordError
from ottla.types import LeaderEpoch, Offset
from ottla.wire.codec import Message
from ottla.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.records import (
    ControlRecordType,
    Record,
    RecordBatch,
    build_batch,
    control_key,
    parse_control_key,
    read_records,
)

CONTROL_RECORD_VERSION: Final = 0
CONTROL_BATCH_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024

_TYPES: Final[dict[ControlRecordType, type[Message]]] = {
    ControlRecordType.LEADER_CHANGE: LeaderChangeMessage,
    ControlRecordType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlRecordType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlRecordType.KRAFT_VERSION: KRaftVersionRecord,
    ControlRecordType.KRAFT_VOTERS: VotersRecord,
}
_NUMBERS: Final = {message: number for number, message in _TYPES.items()}


def build_control_batch(
    messages: Sequence[Message], *, base_offset: Offset, epoch: LeaderEpoch, timestamp_ms: int
) -> bytes:
    """Return the batch that holds ``messages``, one record each."""
    records = [
        Record(
            base_offset + index,
            timestamp_ms,
            control_key(_NUMBERS[type(message)]),
            message.encode(CONTROL_RECORD_VERSION),
        )
        for index, message in enumerate(messages)
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch, is_control=True)


def read_control_batch(batch: RecordBatch) -> Iterator[tuple[Offset, Message]]:
    """Yield each message with its offset; types that this release does not know are skipped.

    Raises:
        CorruptRecordError, ProtocolError: the batch is corrupt.
    """
    for record in read_records(batch, size_bytes_max=CONTROL_BATCH_SIZE_BYTES_MAX):
        message_type = _TYPES.get(parse_control_key(record.key))
        if message_type is None:
            continue
        if record.value is None:
            raise InvalidRecordError(f"the control record at offset {record.offset} has no value")
        yield record.offset, message_type.decode(record.value, CONTROL_RECORD_VERSION)
