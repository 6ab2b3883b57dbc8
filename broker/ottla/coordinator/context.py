"""`CoordinatorContext`: one partition that this node leads: its shard, and what the runtime does for the shard.

Operations decide (they return a `CoordinatorResult`); `write` appends the records and, once the log has taken them, the
shard replays them: with the same `replay` that loads the log after an election.

A write that the log rejects at once changes nothing. One that fails later (the partition has another leader, or
its disk failed) leaves memory and log apart: the context closes, and serves again only when it is loaded again.

Source: CoordinatorRuntime.CoordinatorContext of Apache Kafka's coordinator-common.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ottla.coordinator.append_errors import append_error_to_response_error
from ottla.coordinator.commit_waits import CommitWaits
from ottla.coordinator.loader import CoordinatorLoader
from ottla.coordinator.log import CoordinatorLog
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorShard
from ottla.coordinator.timers import Timers
from ottla.coordinator.transactions import NO_PRODUCER, TransactionalProducer, TransactionEnd
from ottla.errors import ErrorCode, KafkaError
from ottla.log.verifications import VerificationGuard
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all
from ottla.purgatory.steps import batches as in_batches
from ottla.types import LeaderEpoch, Offset
from ottla.wire.records import RecordBatch

log = logging.getLogger(__name__)

ShardT_co = TypeVar("ShardT_co", bound=CoordinatorShard[Any], covariant=True)

RECORDS_PER_BATCH_MAX: Final = 500
"""How many records of a result that is not atomic go into one batch: far below ``max.message.bytes``."""

AnyResult: TypeAlias = CoordinatorResult[Any, Any]


class ContextState(Enum):
    """Loading until the log is read; Closed by a resignation, an unreadable log or a lost write, for good."""

    LOADING = auto()
    ACTIVE = auto()
    CLOSED = auto()


class CoordinatorContext(Generic[ShardT_co]):
    """One led partition, the `CoordinatorPartition` of its shard. Times are monotonic, those in records wall clock's.

    Attributes:
        leader_epoch: in which this node leads the partition.
        has_lost_write: whether a lost write closed it: memory is ahead of the log, and the partition must be reloaded.
    """

    def __init__(
        self,
        *,
        partition: int,
        leader_epoch: LeaderEpoch,
        batches: Iterable[RecordBatch],
        settings: CoordinatorSettings[ShardT_co],
        clock: Clock,
        timers: Timers,
        coordinator_log: CoordinatorLog,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = ContextState.LOADING
        self.has_lost_write = False
        self._replayed_count = 0
        self._topic_name = settings.topic_name
        self._serde = settings.serde
        self._clock = clock
        self._timers = timers
        self._log = coordinator_log
        self._last_append: Delayed[ErrorCode] = Delayed.of(ErrorCode.NONE)
        self._waits = CommitWaits(partition=partition, timeout_ms=settings.write_timeout_ms, clock=clock, timers=timers)
        self.shard = settings.build_shard(self)
        self._loader = CoordinatorLoader(batches=batches, serde=settings.serde, shard=self.shard)

    # Loading and closing

    def load_slice(self) -> None:
        """Replay the next slice of the log; Active behind its end, Closed when it cannot be read."""
        assert self.state is ContextState.LOADING, f"{self._topic_name}-{self.partition} is {self.state}"
        try:
            is_loaded = self._loader.load_slice()
        except (KafkaError, OSError) as error:
            log.error(
                "%s-%d cannot be loaded and is not served: %s. Inspect it with `ottla log dump`; another replica may "
                "be sound, so move the leadership.",
                self._topic_name,
                self.partition,
                error,
            )
            self.close()
            return
        if is_loaded:
            self._log_skipped()
            self.state = ContextState.ACTIVE
            log.info("%s-%d is loaded: %s", self._topic_name, self.partition, self.shard.describe_contents())
            for result in self.shard.on_loaded():
                self.write(result)

    def close(self) -> None:
        """Complete everything that waits with NOT_COORDINATOR; stop serving."""
        if self.state is ContextState.CLOSED:
            return
        if self.state is ContextState.LOADING:
            self._log_skipped()
        self.state = ContextState.CLOSED
        self._timers.cancel_where(lambda key: isinstance(key, tuple) and key[0] == self.partition)
        self.shard.on_unloaded()
        self._waits.fail_all(ErrorCode.NOT_COORDINATOR)

    def _log_skipped(self) -> None:
        """Log once per load what was skipped: a line for each record of a corrupt partition would fill the log."""
        skipped = self._loader.skipped
        if skipped.count:
            log.warning(
                "%s-%d: skipped %d corrupt records or batches; older records count instead: %s. Inspect them with "
                "`ottla log dump`; another replica may be sound, so move the leadership.",
                self._topic_name,
                self.partition,
                skipped.count,
                skipped.describe(),
            )

    # Writing

    def write(self, result: AnyResult) -> Delayed[ErrorCode]:
        """Append what an operation has decided, and replay it.

        Returns:
            NONE when the records, and all before them, are committed; else the error for the client. Without records:
            see `when_committed`. When several batches of a result that is not atomic fail, the first error counts.
        """
        if not result.records:
            return self.when_committed()
        if result.is_atomic or len(result.records) <= RECORDS_PER_BATCH_MAX:
            return self._write_batch(result)
        assert result.on_append is None, "only an atomic result has one outcome"
        assert result.apply is None, "only an atomic result is applied as a whole"
        return when_all(
            [
                self._write_batch(replace(result, records=records))
                for records in in_batches(result.records, RECORDS_PER_BATCH_MAX)
            ]
        ).then(_first_error)

    def write_in_transaction(
        self, result: AnyResult, producer: TransactionalProducer, guard: VerificationGuard | None
    ) -> Delayed[ErrorCode]:
        """Append what an operation has decided to the producer's transaction; the shard keeps it until that ends.

        ``guard`` of the verification. Returns as `write`.
        """
        if not result.records:
            return self.when_committed()
        assert result.is_atomic, "a transaction is verified for one append"
        return self._write_batch(result, producer, guard)

    def end_transaction(self, end: TransactionEnd) -> Delayed[ErrorCode]:
        """Append the marker that ends a producer's transaction, and end it in the shard.

        Returns:
            NONE when the marker is committed. Else the error of the append itself, which is for a transaction
            coordinator; NOT_COORDINATOR when the context closes.
        """
        marker = end.build_marker(self._clock.wall_ms())
        appended = self._log.append(self.partition, marker, transaction_version=end.transaction_version)
        if appended.is_complete and appended.value is not ErrorCode.NONE:
            log.warning(
                "%s-%d rejected the marker of producer %d: %s",
                self._topic_name,
                self.partition,
                end.producer_id,
                appended.value.name,
            )
            return appended
        self.shard.replay_end_transaction_marker(end.producer_id, is_commit=end.is_commit)
        return self._wait_for_commit(appended, Delayed(), lambda error: error)

    def write_if_any(self, result: AnyResult | None) -> None:
        """Write what an operation has decided whose response does not wait for the write."""
        if result is not None:
            self.write(result)

    def when_committed(self) -> Delayed[ErrorCode]:
        """Return NONE when everything is committed that an operation may have seen, else the error for the client."""
        if self._last_append.is_complete:
            return Delayed.of(ErrorCode.NONE)
        return self._waits.wait_for(self._last_append, Delayed())

    def require_confirmed_leadership(self) -> None:
        """Reject a read where another node may have become the coordinator unnoticed.

        Raises:
            KafkaError: NOT_COORDINATOR.
        """
        if not self._log.is_leadership_confirmed(self.partition):
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def _write_batch(
        self, result: AnyResult, producer: TransactionalProducer = NO_PRODUCER, guard: VerificationGuard | None = None
    ) -> Delayed[ErrorCode]:
        batch = self._serde.encode_batch(result.records, timestamp_ms=self._clock.wall_ms(), producer=producer)
        appended = self._log.append(self.partition, batch, guard=guard)
        if appended.is_complete and appended.value is not ErrorCode.NONE:
            log.warning(
                "%s-%d rejected %d records: %s",
                self._topic_name,
                self.partition,
                len(result.records),
                appended.value.name,
            )
        elif result.apply is not None:
            result.apply()
        elif result.is_replayed:
            self._replayed_count = len(result.records)
            for record in result.records:
                self.shard.replay(record, producer.producer_id)
        is_ended = appended.is_complete
        outcome = Delayed.of(append_error_to_response_error(appended.value)) if is_ended else Delayed()
        if result.on_append is not None:
            self._continue_with(result.on_append, outcome)
        if is_ended:
            return outcome
        return self._wait_for_commit(appended, outcome, append_error_to_response_error)

    def _wait_for_commit(
        self, appended: Delayed[ErrorCode], outcome: Delayed[ErrorCode], convert: Callable[[ErrorCode], ErrorCode]
    ) -> Delayed[ErrorCode]:
        """Complete ``outcome`` when what has been appended is committed or lost; return it."""
        self._last_append = appended
        self._waits.wait_for(appended, outcome, convert)
        # After the wait's own callback: the response of the lost write has its error, all others NOT_COORDINATOR.
        appended.on_complete(self._on_append_ended)
        return outcome

    def _continue_with(self, on_append: Callable[[ErrorCode], AnyResult | None], outcome: Delayed[ErrorCode]) -> None:
        def continue_with_error(error: ErrorCode) -> None:
            following = on_append(error)
            if self.state is ContextState.ACTIVE:
                self.write_if_any(following)

        outcome.on_complete(continue_with_error)

    def _on_append_ended(self, error: ErrorCode) -> None:
        # A write that is late (REQUEST_TIMED_OUT) is in this leader's log, and stays there for as long as it leads.
        is_lost = error not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT)
        if is_lost and self.state is not ContextState.CLOSED:
            log.warning("%s-%d lost a write: %s", self._topic_name, self.partition, error.name)
            self.close()
            self.has_lost_write = True

    # CoordinatorPartition, for the shard

    def replayed_offset(self) -> Offset:
        """See `CoordinatorPartition`; of a write the first record of the batch, which is the last one of the log."""
        if self.state is ContextState.LOADING:
            return self._loader.replayed_offset
        return self._log.end_offset(self.partition) - self._replayed_count

    def schedule(self, key: tuple[str, ...], delay_ms: int, operation: Callable[[], AnyResult | None]) -> None:
        """See `CoordinatorTimer`.

        At the earliest for the next millisecond: a client may request a rebalance timeout of 0, and an operation that
        schedules itself again must not keep the node from anything else.
        """
        self._timers.schedule(
            (self.partition, *key), self._deadline_ms(delay_ms), lambda: self.write_if_any(operation())
        )

    def is_scheduled(self, key: tuple[str, ...]) -> bool:
        return (self.partition, *key) in self._timers

    def postpone(self, key: tuple[str, ...], delay_ms: int) -> bool:
        return self._timers.postpone((self.partition, *key), self._deadline_ms(delay_ms))

    def _deadline_ms(self, delay_ms: int) -> int:
        return self._clock.monotonic_ms() + max(delay_ms, 1)

    def cancel(self, key: tuple[str, ...]) -> None:
        self._timers.cancel((self.partition, *key))


def _first_error(errors: list[ErrorCode]) -> ErrorCode:
    return next((error for error in errors if error is not ErrorCode.NONE), ErrorCode.NONE)
