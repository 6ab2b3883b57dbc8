"""`TransactionShard`: the transactional ids of one partition of ``__transaction_state``, in its leader's memory.

A decision to commit or abort (a Prepare record) takes effect in this order: the record is committed, the markers are
written by the leaders of the transaction's partitions, the Complete record is written. `check` continues an id from
wherever it is, so that a rejected or late write, and a coordinator that has just been elected, need no path of their
own.

Source: TransactionStateManager of Apache Kafka 4.3.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Protocol, TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Clock
from ottla.transactions.config import TransactionConfig
from ottla.transactions.log import TransactionRecord, value_version
from ottla.transactions.metadata import EPOCH_PER_TRANSACTION_VERSION, TransactionMetadata
from ottla.transactions.state import TransactionState
from ottla.types import ProducerId
from ottla.wire.records import NO_PRODUCER_ID

Result: TypeAlias = CoordinatorResult[TransactionRecord, None]

RETRY_INTERVAL_MS: Final = 1_000
"""When a write is repeated that was rejected, or was not committed in time."""
_EXPIRED_PER_SLICE: Final = 500
_REWRITTEN_AT_ONCE: Final = 50
_REWRITTEN_PER_MS: Final = 10
"""A write takes some 50 us of the loop."""


class MarkerQueue(Protocol):
    """Sends the markers of prepared transactions: `transactions.markers.MarkerSender`."""

    def send(self, metadata: TransactionMetadata) -> None:
        """Send the markers of a transaction whose Prepare record is committed."""

    def is_sending(self, metadata: TransactionMetadata) -> bool:
        """Return whether markers of the transaction are on their way."""

    def cancel(self, transactional_ids: Iterable[str]) -> None:
        """Send nothing more for these ids: this node is not their coordinator any more."""


class TransactionShard:
    """See `CoordinatorShard`.

    Attributes:
        transactions: by transactional id; only `replay` changes it.
    """

    def __init__(
        self,
        *,
        config: TransactionConfig,
        clock: Clock,
        timer: CoordinatorTimer[TransactionRecord],
        markers: MarkerQueue,
        transaction_version: Callable[[], int],
    ) -> None:
        """``transaction_version`` returns the finalized level of the feature."""
        self.transactions: dict[str, TransactionMetadata] = {}
        self._config = config
        self._clock = clock
        self._timer = timer
        self._markers = markers
        self._transaction_version = transaction_version
        self._marked: dict[str, TransactionMetadata] = {}
        """Prepared transactions all of whose markers are written, until they are complete."""
        self._deadlines_ms: dict[str, int] = {}
        """Monotonic, of the time-outs of open transactions: the wall clock may be set back."""
        self._is_active = False
        self._expiring: Iterator[str] | None = None

    # CoordinatorShard

    def replay(self, record: TransactionRecord, producer_id: ProducerId) -> None:
        """Set or remove an id; once the log is loaded, start or stop its time-out."""
        transactional_id, metadata = record.transactional_id, record.metadata
        before = self.transactions.get(transactional_id)
        if metadata is None or metadata.state is TransactionState.DEAD:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = metadata
        if self._is_active:
            self._marked.pop(transactional_id, None)
            self._set_time_out(transactional_id, before, metadata)

    def replay_end_transaction_marker(self, producer_id: ProducerId, *, is_commit: bool) -> None:
        """Do nothing: the topic has no transactions itself."""

    def on_loaded(self) -> Iterable[Result]:
        """Start time-outs, and write the Prepare records again.

        They may be above the high watermark: no marker may be written before they are committed in this leader's epoch.
        Nor may a batch be appended because of a partition that only this node has in a transaction: with an open one,
        there is a record whose commit all responses wait for.
        """
        self._is_active = True
        self._schedule_expiry(self._config.expiry_check_interval_ms)
        rewritten = [metadata for metadata in self.transactions.values() if metadata.state.is_prepared]
        ongoing = [metadata for metadata in self.transactions.values() if metadata.state is TransactionState.ONGOING]
        for metadata in ongoing:
            self._set_time_out(metadata.transactional_id, None, metadata)
        for number, metadata in enumerate(rewritten[_REWRITTEN_AT_ONCE:]):
            self._check_later(metadata.transactional_id, 1 + number // _REWRITTEN_PER_MS)
        return [self.write(metadata) for metadata in rewritten[:_REWRITTEN_AT_ONCE] or ongoing[-1:]]

    def on_unloaded(self) -> None:
        self._is_active = False
        self._markers.cancel(self.transactions)

    def describe_contents(self) -> str:
        return f"{len(self.transactions)} transactional ids"

    @property
    def open_count(self) -> int:
        """Number of transactions that are neither committed nor aborted."""
        return len(self._deadlines_ms)

    # Transitions

    @property
    def transaction_version(self) -> int:
        """The finalized ``transaction.version``."""
        return self._transaction_version()

    def write(self, metadata: TransactionMetadata) -> Result:
        """Return the result that writes ``metadata`` and continues when it is committed.

        Raises:
            KafkaError: UNSUPPORTED_VERSION, records under ``transaction.version`` 0 cannot say that the client uses 2.
                An id whose last record says so continues to say it until its next transaction: otherwise no transaction
                of before the change could end, and readers of committed records would wait for it.
        """
        version = value_version(self.transaction_version)
        if not version and metadata.has_epoch_per_transaction:
            before = self.transactions.get(metadata.transactional_id)
            if before is None or not before.has_epoch_per_transaction:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            if metadata.state is TransactionState.ONGOING and before.state is not TransactionState.ONGOING:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            version = value_version(EPOCH_PER_TRANSACTION_VERSION)
        record = TransactionRecord(metadata.transactional_id, metadata, version)
        return CoordinatorResult(
            records=[record], response=None, on_append=lambda error: self._on_written(metadata, error)
        )

    def abort(self, metadata: TransactionMetadata) -> Result:
        """Return the result that fences the producer of an open transaction and aborts it.

        Under version 2 the abort increments the epoch like any other, and a producer that still has the last one may go
        on (see `TransactionMetadata.incremented`); under the versions before it may not.
        """
        has_epoch = self.transaction_version >= EPOCH_PER_TRANSACTION_VERSION
        prepared = (metadata if has_epoch else metadata.fenced()).prepared(
            is_commit=False,
            client_transaction_version=EPOCH_PER_TRANSACTION_VERSION if has_epoch else 0,
            next_producer_id=NO_PRODUCER_ID,
            now_ms=self._clock.wall_ms(),
        )
        return self.write(prepared)

    def complete(self, metadata: TransactionMetadata) -> Result:
        """Return the result that ends a transaction all of whose markers are written."""
        if self.transactions.get(metadata.transactional_id) is not metadata:
            return CoordinatorResult(response=None)
        self._marked[metadata.transactional_id] = metadata
        return self.write(metadata.completed(self._clock.wall_ms()))

    def check(self, transactional_id: str) -> Result | None:
        """Return what is due for an id: the abort after its time-out, or the next step of its end."""
        metadata = self.transactions.get(transactional_id)
        if metadata is None:
            return None
        if metadata.state is TransactionState.ONGOING:
            left_ms = self._deadlines_ms[transactional_id] - self._clock.monotonic_ms()
            if left_ms <= 0:
                return self.abort(metadata)
            self._check_later(transactional_id, left_ms)
        elif metadata.state.is_prepared and transactional_id in self._marked:
            return self.complete(metadata)
        elif metadata.state.is_prepared and not self._markers.is_sending(metadata):
            return self.write(metadata)
        return None

    def _on_written(self, metadata: TransactionMetadata, error: ErrorCode) -> None:
        if not self._is_active:
            return
        if error is not ErrorCode.NONE:
            self._check_later(metadata.transactional_id, RETRY_INTERVAL_MS)
        elif metadata.state.is_prepared and self.transactions.get(metadata.transactional_id) is metadata:
            self._markers.send(metadata)

    # Time

    def _set_time_out(
        self, transactional_id: str, before: TransactionMetadata | None, after: TransactionMetadata | None
    ) -> None:
        is_open = after is not None and after.state is TransactionState.ONGOING
        was_open = before is not None and before.state is TransactionState.ONGOING
        if is_open and not was_open:
            assert after is not None, "it is open"
            left_ms = after.start_ms + after.timeout_ms - self._clock.wall_ms()
            left_ms = min(max(left_ms, 0), after.timeout_ms)
            self._deadlines_ms[transactional_id] = self._clock.monotonic_ms() + left_ms
            self._check_later(transactional_id, left_ms)
        elif was_open and not is_open:
            del self._deadlines_ms[transactional_id]
            self._timer.cancel(("transaction", transactional_id))

    def _check_later(self, transactional_id: str, delay_ms: int) -> None:
        self._timer.schedule(("transaction", transactional_id), delay_ms, lambda: self.check(transactional_id))

    # Expiry

    def _schedule_expiry(self, delay_ms: int) -> None:
        self._timer.schedule(("expiry",), delay_ms, self._expire)

    def _expire(self) -> Result:
        """Return the tombstones of expired ids, some hundred ids per slice."""
        if self._expiring is None:
            self._expiring = iter(list(self.transactions))
        looked_at = list(islice(self._expiring, _EXPIRED_PER_SLICE))
        if len(looked_at) == _EXPIRED_PER_SLICE:
            self._schedule_expiry(0)
        else:
            self._expiring = None
            self._schedule_expiry(self._config.expiry_check_interval_ms)
        now_ms = self._clock.wall_ms()
        expired = [each for each in looked_at if self._is_expired(each, now_ms)]
        return CoordinatorResult(
            records=[TransactionRecord(each, None) for each in expired], response=None, is_atomic=False
        )

    def _is_expired(self, transactional_id: str, now_ms: int) -> bool:
        metadata = self.transactions.get(transactional_id)
        if metadata is None or not (metadata.state is TransactionState.EMPTY or metadata.state.is_complete):
            return False
        return now_ms - metadata.updated_ms >= self._config.id_expiration_ms
