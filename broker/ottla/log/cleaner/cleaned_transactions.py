"""The transactions of the batches that a cleaning reads: which data is aborted, and which markers are not needed.

A marker must stay while a batch of its transaction is in the log: an ABORT marker because readers skip the data by it,
a COMMIT marker because a reader that sees the data expects its end.

Source: CleanedTransactionMetadata of Kafka.
"""

from collections import deque
from collections.abc import Iterable

from ottla.log.producer_state import read_marker
from ottla.log.transaction_index import AbortedTransaction, TransactionIndex
from ottla.types import Offset, ProducerId
from ottla.wire.records import ControlRecordType, RecordBatch


class CleanedTransactions:
    """See the module. Batches must be passed in the order of their offsets.

    Args of the constructor:
        aborted: those of the log that overlap with the batches.

    Attributes:
        index: receives the aborted transactions of which a batch has been read; None while no segment is written.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.index: TransactionIndex | None = None
        self._waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[ProducerId, AbortedTransaction] = {}
        self._with_batches: set[ProducerId] = set()
        """The producers with an open transaction, aborted or not, of which a batch has been read."""

    def is_discardable(self, batch: RecordBatch) -> bool:
        """Return whether the batch is aborted data, or a marker of a transaction that has no batch left.

        Raises:
            CorruptRecordError: a control batch that cannot be read.
        """
        self._begin_aborted(batch.last_offset)
        if batch.is_control:
            return self._is_marker_discardable(batch)
        if not batch.is_transactional:
            return False
        self._with_batches.add(batch.producer_id)
        return batch.producer_id in self._aborted

    def _begin_aborted(self, offset: Offset) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            transaction = waiting.popleft()
            self._aborted.setdefault(transaction.producer_id, transaction)

    def _is_marker_discardable(self, batch: RecordBatch) -> bool:
        if batch.record_count == 0:
            return True  # an earlier cleaning has removed the marker
        marker = read_marker(batch)
        if marker is None:
            return False
        has_batches = batch.producer_id in self._with_batches
        self._with_batches.discard(batch.producer_id)
        if marker.record_type is ControlRecordType.ABORT:
            transaction = self._aborted.pop(batch.producer_id, None)
            if transaction is None:
                return True
            if has_batches and self.index is not None:
                self.index.append(transaction)
        return not has_batches
