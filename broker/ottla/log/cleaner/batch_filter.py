"""Which records of a batch compaction keeps, and the batch that is left of them.

A record stays if it is the last one of its key, or above the offsets of the map. A tombstone, a record without value,
goes in two passes: the first one that reads it writes the time from which it may go into its batch, the delete horizon
(now + delete.retention.ms); the first one after that time removes it. Markers of transactions likewise, once no batch
of the transaction is left. In between, a consumer that reads from the start has the time to reach the end, and so does
not keep a value whose tombstone it never saw. Aborted records go at once; records without a key too, which a topic may
have from the time before it was compacted.

Records keep their offsets, and a batch its own range of offsets and sequence numbers. Two kinds of batches stay even
without records: the last one of each live producer, whose sequence number the producer's next batch must follow, and
the last one below the first uncleanable offset.

Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka; KIP-534.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.log.cleaner.cleaned_transactions import CleanedTransactions
from ottla.log.cleaner.offset_map import OffsetMap
from ottla.log.validation import RECORDS_SIZE_BYTES_MAX
from ottla.ports import Buffer
from ottla.types import Offset, ProducerEpoch, ProducerId
from ottla.wire.records import (
    RecordBatch,
    RecordKey,
    build_empty_batch,
    build_retained_batch,
    decompress,
    read_record_keys,
)


class LastRecord(NamedTuple):
    """The last batch of a live producer: the offset of its last data record, -1 if its last batch is a marker."""

    last_data_offset: Offset
    producer_epoch: ProducerEpoch


class Retention(NamedTuple):
    """What decides about the batches of one cleaning, besides the offset map and the transactions.

    Attributes:
        last_records: of the live producers.
        uncleanable_offset: the first offset that is not cleaned; the batch that ends there stays.
        now_ms: wall clock.
        delete_retention_ms: delete.retention.ms.
    """

    last_records: Mapping[ProducerId, LastRecord]
    uncleanable_offset: Offset
    now_ms: int
    delete_retention_ms: int


def filter_batch(batch: RecordBatch, offsets: OffsetMap, transactions: CleanedTransactions, keep: Retention) -> Buffer:
    """Return what is left of ``batch``: itself, another batch with its range of offsets, or no bytes.

    Raises:
        CorruptRecordError: the batch is corrupt, cannot be decompressed, or is too large when it is.
    """
    batch.check_crc()
    is_discardable = transactions.is_discardable(batch)
    horizon_ms = batch.delete_horizon_ms
    is_due = horizon_ms is not None and horizon_ms <= keep.now_ms
    is_discarded = is_discardable and (is_due or not batch.is_control)
    data = b""
    retained: list[RecordKey] = []
    marks = None if batch.is_control else offsets.marks(batch.base_offset, batch.last_offset)
    if not is_discarded and (marks is None or 0 in marks):
        data = decompress(batch.compression, batch.payload, size_bytes_max=RECORDS_SIZE_BYTES_MAX)
        retained = read_record_keys(batch, data)
        if not batch.is_control:
            retained = _select_retained(retained, offsets, marks, batch.base_offset, is_due=is_due)
    if not retained:
        return build_empty_batch(batch) if _must_stay(batch, keep) else b""
    starts_horizon = horizon_ms is None and (is_discardable or any(record.is_tombstone for record in retained))
    if len(retained) == batch.record_count and not starts_horizon:
        return batch.data
    if starts_horizon:
        horizon_ms = keep.now_ms + keep.delete_retention_ms
    return build_retained_batch(batch, data, retained, delete_horizon_ms=horizon_ms)


def _select_retained(
    records: list[RecordKey], offsets: OffsetMap, marks: bytearray | None, base_offset: Offset, *, is_due: bool
) -> list[RecordKey]:
    """``marks`` are those of the map from ``base_offset`` on; ``is_due``: tombstones of the batch may be removed."""
    superseded: list[int]
    if marks is not None:
        superseded = [marks[record.offset - base_offset] for record in records]
    else:
        last_offsets = offsets.get_all([record.key or b"" for record in records])
        superseded = [record.offset < last for record, last in zip(records, last_offsets, strict=True)]
    latest_offset = offsets.latest_offset
    return [
        record
        for record, is_superseded in zip(records, superseded, strict=True)
        if record.offset > latest_offset
        or not (is_superseded or record.key is None or (record.is_tombstone and is_due))
    ]


def _must_stay(batch: RecordBatch, keep: Retention) -> bool:
    last = keep.last_records.get(batch.producer_id)
    if last is None:
        return batch.next_offset == keep.uncleanable_offset
    if last.last_data_offset >= 0:
        is_last = batch.last_offset == last.last_data_offset
    else:
        # Its marker has the epoch, without which an older instance of the producer would not be fenced.
        is_last = batch.is_control and batch.producer_epoch == last.producer_epoch
    return is_last or batch.next_offset == keep.uncleanable_offset
