"""`AbortedTransactions`: which batches of a part of the log belong to aborted transactions.

Source: CompletedFetch.consumeAbortedTransactionsUpTo (Kafka's client),
SharePartition.fetchAbortedTransactionRecordBatches of Apache Kafka 4.3.1.
"""

from collections.abc import Iterable
from typing import Protocol

from ottla.wire.records.batch import RecordBatch
from ottla.wire.records.control import ControlRecordType, parse_control_key
from ottla.wire.records.record import read_records

_MARKER_BYTES_MAX = 4_096


class _AbortedTransaction(Protocol):
    """An entry of the transaction index, or of a Fetch response."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


class AbortedTransactions:
    """See the module; `includes` must be called for each batch, by ascending offset."""

    def __init__(self, aborted: Iterable[_AbortedTransaction]) -> None:
        self._starting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
        self._open: set[int] = set()

    def includes(self, batch: RecordBatch) -> bool:
        """Return whether the records of ``batch`` were aborted; control batches have none."""
        while self._starting and self._starting[-1][0] <= batch.last_offset:
            self._open.add(self._starting.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._open and _is_abort(batch):
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


def _is_abort(batch: RecordBatch) -> bool:
    # Compaction may have removed the marker of a batch, which is then empty.
    records = read_records(batch, size_bytes_max=_MARKER_BYTES_MAX)
    return any(parse_control_key(record.key) is ControlRecordType.ABORT for record in records)
