"""Replay of batches into the producers' state, shared by append, replication, truncation and recovery.

Source: LogSegment.updateProducerState and UnifiedLog.rebuildProducerState of Kafka.
"""

from ottla.log.producer_snapshots import ProducerSnapshots
from ottla.log.producer_state import ProducerState, read_marker
from ottla.log.segments import Segments
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.types import Offset
from ottla.wire.records import RecordBatch


def replay_batch(state: ProducerState, batch: RecordBatch, transaction_index: TransactionIndex | None) -> None:
    """Apply a batch that has its offsets to ``state``; an ABORT marker is also added to the transaction index.

    Without an index (None) only the state changes: the index has the entry already. Of a control batch the records
    are read, of others only the header.

    Raises:
        CorruptRecordError: a control batch that cannot be read.
        StorageError: an I/O error on the index entry.
    """
    if batch.producer_id < 0:
        return
    if state.verifications and batch.is_transactional:
        state.verifications.on_appended(batch)
    if not batch.is_control:
        state.on_data(batch)
        return
    marker = read_marker(batch)
    if marker is None:
        return
    transaction = state.on_marker(batch, marker)
    if transaction is None:
        return
    if transaction.is_aborted and transaction_index is not None:
        transaction_index.append(
            AbortedTransaction(
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                state.last_stable_offset_after(transaction),
            )
        )
    state.complete(transaction)


def rebuild_producers(
    state: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Segments,
    *,
    end_offset: Offset,
    now_ms: int,
) -> None:
    """Rebuild ``state`` as of ``end_offset``: from the newest snapshot at or below it, and the log from there on.

    Records below the log start count as long as their segment exists: a producer may still send a duplicate of them.

    Raises:
        CorruptRecordError: a batch below ``end_offset`` cannot be read.
        StorageError: an I/O error.
    """
    start_offset = min(segments.first.base_offset, end_offset)
    snapshots.load_latest(state, start_offset=start_offset, end_offset=end_offset, now_ms=now_ms)
    for segment in segments.starting_with(state.end_offset):
        if segment.base_offset >= end_offset or state.end_offset >= end_offset:
            break
        place = segment.find(state.end_offset)
        for _, batch in segment.walk_batches(segment.size_bytes if place is None else place.position):
            if batch.base_offset >= end_offset:
                break
            replay_batch(state, batch, None)
    state.end_offset = end_offset
