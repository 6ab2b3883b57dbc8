"""`CoordinatorRuntime`: the shards of all partitions that this node leads, of one coordinator.

The publisher reports elections (`on_elected`, `on_resigned`), the node calls `tick`, the coordinator's services run
operations. Every response is a `Delayed`: complete once all that its operation saw is committed.

Source: CoordinatorRuntime of Apache Kafka's coordinator-common.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from ottla.coordinator.append_errors import append_error_to_response_error
from ottla.coordinator.context import ContextState, CoordinatorContext
from ottla.coordinator.log import CoordinatorLog
from ottla.coordinator.partitioner import partition_for_key
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorShard
from ottla.coordinator.timers import Timers
from ottla.coordinator.transactions import TransactionalProducer, TransactionEnd, Verification
from ottla.errors import ErrorCode, KafkaError
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.types import LeaderEpoch
from ottla.wire.records import RecordBatch

ShardT_co = TypeVar("ShardT_co", bound=CoordinatorShard[Any], covariant=True)
ResponseT = TypeVar("ResponseT")

RELOAD_INTERVAL_MS: Final = 1_000
"""How often a partition that has lost a write is loaded again, should it lose one again each time."""

TIMERS_NS: Final = 1_000_000
"""Time of one tick for timers: those that are left run in the next one, and other work of the node in between."""


class CoordinatorRuntime(Generic[ShardT_co]):
    """One per coordinator and node. Times are `Clock.monotonic_ms`."""

    def __init__(self, *, settings: CoordinatorSettings[ShardT_co], clock: Clock, log: CoordinatorLog) -> None:
        """Start with no partition led."""
        self._settings = settings
        self._clock = clock
        self._log = log
        self._contexts: dict[int, CoordinatorContext[ShardT_co]] = {}
        self._loading: list[CoordinatorContext[ShardT_co]] = []
        self._timers = Timers()
        self._next_reload_ms = 0

    # Elections

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """Start to load and then serve ``partition``, which this node leads from now on.

        ``batches`` runs from the log start to the log end offset at the election. It is read slice by slice: one now,
        the rest at each `tick` (which is then due at once). Operations fail with COORDINATOR_LOAD_IN_PROGRESS until the
        end is reached.
        A partition that is served already continues unchanged: its leader is the same, in any epoch.
        """
        current = self._contexts.get(partition)
        if current is not None and current.state is not ContextState.CLOSED:
            current.leader_epoch = max(current.leader_epoch, leader_epoch)
            return
        context = self._contexts[partition] = CoordinatorContext(
            partition=partition,
            leader_epoch=leader_epoch,
            batches=batches,
            settings=self._settings,
            clock=self._clock,
            timers=self._timers,
            coordinator_log=self._log,
        )
        self._loading.append(context)
        self._load_slice()

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """Stop serving ``partition``: everything that waits is completed with NOT_COORDINATOR.

        ``leader_epoch``: of the new leader, None when the replica is gone; a call older than the service is ignored.
        """
        context = self._contexts.get(partition)
        if context is None or (leader_epoch is not None and leader_epoch < context.leader_epoch):
            return
        del self._contexts[partition]
        if context in self._loading:
            self._loading.remove(context)
        context.close()

    # Time

    def tick(self, now_ms: int) -> int | None:
        """Do what is due at ``now_ms``: timers of shards, time-outs of writes, loading.

        Return ``now_ms`` when something was due, else what `next_deadline_ms` would.
        """
        if now_ms >= self._next_reload_ms:
            self._reload_lost(now_ms)
        scheduled_ms = self._timers.next_deadline_ms()
        if not self._loading and (scheduled_ms is None or scheduled_ms > now_ms):
            return self._reload_or(scheduled_ms) if self._contexts else scheduled_ms
        if self._loading:
            self._load_slice()
        until_ns = self._clock.monotonic_ns() + TIMERS_NS
        # Thousands of sessions may end in the same millisecond, and a job of a group takes two.
        self._timers.run_due(now_ms, lambda: self._clock.monotonic_ns() >= until_ns)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` is to be called next, at the latest; None when nothing is scheduled."""
        return self._clock.monotonic_ms() if self._loading else self._reload_or(self._timers.next_deadline_ms())

    def _reload_or(self, scheduled_ms: int | None) -> int | None:
        """Return when partitions that lost a write are loaded again, if that is before ``scheduled_ms``."""
        for context in self._contexts.values():
            if context.has_lost_write:
                return self._next_reload_ms if scheduled_ms is None else min(scheduled_ms, self._next_reload_ms)
        return scheduled_ms

    def _load_slice(self) -> None:
        """Load the next slice of one partition: tick by tick, so that the node continues to serve the others."""
        for context in self._loading[:1]:
            context.load_slice()
            if context.state is not ContextState.LOADING:
                self._loading.remove(context)

    def _reload_lost(self, now_ms: int) -> None:
        """Load the partitions again that have lost a write: no election does it for as long as they are led."""
        self._next_reload_ms = now_ms + RELOAD_INTERVAL_MS
        for partition, context in list(self._contexts.items()):
            batches = self._log.read_again(partition) if context.has_lost_write else None
            if batches is not None:
                self.on_elected(partition, context.leader_epoch, batches)

    # Operations

    def count_partitions(self) -> Counter[ContextState]:
        """Return how many led partitions are in each state."""
        return Counter(context.state for context in self._contexts.values())

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded."""
        return bool(self._loading)

    @property
    def is_serving(self) -> bool:
        """Whether a partition is served."""
        return any(context.state is ContextState.ACTIVE for context in self._contexts.values())

    def partition_for(self, key: str) -> int | None:
        """Return the partition of the internal topic that holds ``key``; None while there is no such topic."""
        count = self._settings.partition_count()
        return None if count is None else partition_for_key(key, count)

    def run_write_operation(
        self,
        key: str,
        decide: Callable[[ShardT_co], CoordinatorResult[Any, ResponseT]],
        on_error: Callable[[ErrorCode], ResponseT],
    ) -> Delayed[ResponseT]:
        """Write what ``decide`` returns for the shard of ``key``.

        Returns:
            The response of the result when its records are committed; else what ``on_error`` returns for the error of
            `context_for`, the KafkaError that ``decide`` raised, or the error of the write.
        """
        return self.run_write_operation_in(self.partition_for(key), decide, on_error)

    def run_write_operation_in(
        self,
        partition: int | None,
        decide: Callable[[ShardT_co], CoordinatorResult[Any, ResponseT]],
        on_error: Callable[[ErrorCode], ResponseT],
    ) -> Delayed[ResponseT]:
        """Do the same for a key whose `partition_for` is known: to hash one of 32 KiB takes 2.8 ms."""
        try:
            context = self.context_of(partition)
            result = decide(context.shard)
        except KafkaError as error:
            return Delayed.of(on_error(error.code))
        return respond_when_committed(context.write(result), result.response, on_error)

    def run_transactional_write_operation(
        self,
        key: str,
        producer: TransactionalProducer,
        api_version: int,
        decide: Callable[[ShardT_co], CoordinatorResult[Any, ResponseT]],
        on_error: Callable[[ErrorCode], ResponseT],
    ) -> Delayed[ResponseT]:
        """Write what ``decide`` returns for the shard of ``key`` in the producer's transaction, once that is verified.

        Returns:
            As `run_write_operation`, or what ``on_error`` returns for the error of the verification.
        """
        partition = self.partition_for(key)
        try:
            self.context_for(key)
        except KafkaError as error:
            return Delayed.of(on_error(error.code))
        assert partition is not None, "it has a context"

        def write(verification: Verification) -> Delayed[ResponseT]:
            if verification.error is not ErrorCode.NONE:
                return Delayed.of(on_error(append_error_to_response_error(verification.error)))
            try:
                context = self.context_for(key)
                result = decide(context.shard)
            except KafkaError as error:
                return Delayed.of(on_error(error.code))
            written = context.write_in_transaction(result, producer, verification.guard)
            return respond_when_committed(written, result.response, on_error)

        return self._log.verify_transaction(partition, producer, api_version).then_compose(write)

    def end_transaction(self, partition: int, end: TransactionEnd) -> Delayed[ErrorCode]:
        """Append the marker that ends a transaction to ``partition``, and end it in the shard.

        Returns:
            As `CoordinatorContext.end_transaction`; also the errors of `context_for`.
        """
        try:
            context = self.context_of(partition)
        except KafkaError as error:
            return Delayed.of(error.code)
        return context.end_transaction(end)

    def run_read_operation(
        self,
        key: str,
        read: Callable[[ShardT_co], ResponseT],
        on_error: Callable[[ErrorCode], ResponseT],
        *,
        must_be_latest: bool,
    ) -> Delayed[ResponseT]:
        """Return what ``read`` returns for the shard of ``key``, when all that it may have seen is committed.

        With ``must_be_latest`` it fails with NOT_COORDINATOR where another node may have become the coordinator
        unnoticed: this one was paused, or the others cannot reach it. Other errors: see `run_write_operation`.
        """
        try:
            context = self.context_for(key)
            if must_be_latest:
                context.require_confirmed_leadership()
            response = read(context.shard)
        except KafkaError as error:
            return Delayed.of(on_error(error.code))
        return respond_when_committed(context.when_committed(), response, on_error)

    def write_to_all(self, decide: Callable[[ShardT_co], CoordinatorResult[Any, None]]) -> None:
        """Write what ``decide`` returns for each shard that is served."""
        for context in self.active_contexts():
            context.write(decide(context.shard))

    def active_contexts(self) -> list[CoordinatorContext[ShardT_co]]:
        """Return the contexts that are served, by partition."""
        return [context for _, context in sorted(self._contexts.items()) if context.state is ContextState.ACTIVE]

    def active_shards(self) -> list[ShardT_co]:
        """Return the shards that are served, by partition."""
        return [context.shard for context in self.active_contexts()]

    def context_for(self, key: str) -> CoordinatorContext[ShardT_co]:
        """Return the context that serves ``key``.

        Raises:
            KafkaError: NOT_COORDINATOR: another node leads its partition, or none does; COORDINATOR_LOAD_IN_PROGRESS.
        """
        return self.context_of(self.partition_for(key))

    def context_of(self, partition: int | None) -> CoordinatorContext[ShardT_co]:
        """Return the context that serves ``partition``; raise as `context_for`."""
        context = None if partition is None else self._contexts.get(partition)
        if context is None or context.state is ContextState.CLOSED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if context.state is ContextState.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return context


def respond_when_committed(
    committed: Delayed[ErrorCode], response: ResponseT, on_error: Callable[[ErrorCode], ResponseT]
) -> Delayed[ResponseT]:
    """Return ``response`` once its records are committed, or what ``on_error`` returns for the error of their write."""
    if committed.is_complete and committed.value is ErrorCode.NONE:
        return Delayed.of(response)
    return committed.then(lambda error: response if error is ErrorCode.NONE else on_error(error))
