"""Batches of records in the quorum's log, encoded and decoded; `control_batch` has the batches of control records."""

from collections.abc import Sequence
from typing import Final, TypeVar

from ottla.errors import ErrorCode, KafkaError
from ottla.raft.records import Batch, RecordSerde
from ottla.types import LeaderEpoch, Offset
from ottla.wire.records import Record, RecordBatch, build_batch, read_records

RecordT = TypeVar("RecordT")

BATCH_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024


def build_record_batch(
    records: Sequence[RecordT],
    serde: RecordSerde[RecordT],
    *,
    base_offset: Offset,
    epoch: LeaderEpoch,
    timestamp_ms: int,
) -> tuple[bytes, Batch[RecordT]]:
    """Return ``records`` as one batch: its bytes for the log, and the batch for the listeners.

    Raises:
        KafkaError: RECORD_LIST_TOO_LARGE, the records do not fit one batch of 8 MiB.
    """
    encode = serde.encode
    data = build_batch(
        [Record(base_offset + index, timestamp_ms, None, encode(each)) for index, each in enumerate(records)],
        base_offset=base_offset,
        leader_epoch=epoch,
    )
    if len(data) > BATCH_SIZE_BYTES_MAX:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{len(records)} metadata records take {len(data)} bytes; one change may take {BATCH_SIZE_BYTES_MAX}",
        )
    last_offset = base_offset + len(records) - 1
    return data, Batch(base_offset, epoch, timestamp_ms, len(data), tuple(records), last_offset)


def read_batch(batch: RecordBatch, serde: RecordSerde[RecordT]) -> Batch[RecordT]:
    """Return the batch with its records decoded; control batches have none.

    Raises:
        CorruptRecordError, ProtocolError: the batch is corrupt, or from a newer release.
    """
    records: tuple[RecordT, ...] = ()
    if not batch.is_control:
        values = read_records(batch, size_bytes_max=BATCH_SIZE_BYTES_MAX)
        records = tuple(serde.decode(record.value or b"") for record in values)
    return Batch(
        batch.base_offset,
        batch.leader_epoch,
        batch.max_timestamp_ms,
        batch.size_bytes,
        records,
        batch.last_offset,
    )
