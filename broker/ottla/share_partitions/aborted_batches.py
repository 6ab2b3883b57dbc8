"""Batches of aborted transactions in a slice of the log.

Source: SharePartition.fetchAbortedTransactionRecordBatches of Apache Kafka 4.3.1.
"""

from collections.abc import Iterable

from ottla.log.transaction_index import AbortedTransaction
from ottla.types import Offset
from ottla.wire.records import RecordBatch, parse_control_key, read_records
from ottla.wire.records.control import ControlRecordType

_MARKER_BYTES_MAX = 4_096


def aborted_ranges(
    batches: Iterable[RecordBatch], aborted: Iterable[AbortedTransaction]
) -> list[tuple[Offset, Offset]]:
    """Return first and last offset of each batch whose transaction was aborted."""
    waiting = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    open_producers: set[int] = set()
    found = []
    for batch in batches:
        if not batch.has_producer_id:
            continue
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            open_producers.add(waiting.pop().producer_id)
        if batch.is_control:
            if _is_abort(batch):
                open_producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_producers:
            found.append((batch.base_offset, batch.last_offset))
    return found


def _is_abort(batch: RecordBatch) -> bool:
    # Compaction may have removed the marker of a batch, which is then empty.
    records = read_records(batch, size_bytes_max=_MARKER_BYTES_MAX)
    return any(parse_control_key(record.key) is ControlRecordType.ABORT for record in records)
