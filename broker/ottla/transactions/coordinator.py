"""`TransactionCoordinator`: the transactional ids whose partition of ``__transaction_state`` this node leads.

Source: TransactionCoordinator of Apache Kafka 4.3.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from ottla.coordinator.context import ContextState
from ottla.coordinator.log import CoordinatorLog
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.settings import CoordinatorSettings
from ottla.coordinator.shard import CoordinatorTimer
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.delta import MetadataDelta
from ottla.peers.channel import PeerChannel
from ottla.peers.request_queues import LeaderLookup
from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.transactions.config import TransactionConfig
from ottla.transactions.end import End, end_transaction
from ottla.transactions.enlist import Enlistment, add_partitions, missing_partitions
from ottla.transactions.initialize import Initialization, initialize
from ottla.transactions.log import TRANSACTION_RECORD_SERDE, TransactionRecord
from ottla.transactions.markers import MarkerSender
from ottla.transactions.metadata import TransactionMetadata
from ottla.transactions.metrics import TransactionSample
from ottla.transactions.new_producer_id import NeedsProducerId, run_with_producer_id
from ottla.transactions.producer_ids import ProducerIds
from ottla.transactions.shard import TransactionShard
from ottla.types import TRANSACTION_STATE_TOPIC, LeaderEpoch, TopicPartition
from ottla.wire.messages.end_txn import EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdResponse
from ottla.wire.records import NO_PRODUCER_EPOCH, RecordBatch


class TransactionCoordinator:
    """The transaction coordinator of one node; a part of it, and a user of `CoordinatorPublisher`.

    Args of the constructor:
        channel, leaders, listener: to the leaders of transactions' partitions, see `MarkerSender`.
        partition_count: returns the number of partitions of ``__transaction_state``; None while it does not exist.
        transaction_version: returns the finalized level of the feature.
    """

    def __init__(
        self,
        *,
        config: TransactionConfig,
        clock: Clock,
        log: CoordinatorLog,
        channel: PeerChannel,
        leaders: LeaderLookup,
        listener: str,
        request_timeout_ms: int,
        producer_ids: ProducerIds,
        partition_count: Callable[[], int | None],
        transaction_version: Callable[[], int],
    ) -> None:
        self._config = config
        self._clock = clock
        self._producer_ids = producer_ids
        self._markers = MarkerSender(
            channel=channel,
            clock=clock,
            leaders=leaders,
            listener=listener,
            timeout_ms=request_timeout_ms,
            on_written=self._on_markers_written,
        )

        def build_shard(timer: CoordinatorTimer[TransactionRecord]) -> TransactionShard:
            return TransactionShard(
                config=config,
                clock=clock,
                timer=timer,
                markers=self,
                transaction_version=transaction_version,
            )

        settings = CoordinatorSettings(
            topic_name=TRANSACTION_STATE_TOPIC,
            partition_count=partition_count,
            serde=TRANSACTION_RECORD_SERDE,
            build_shard=build_shard,
            write_timeout_ms=config.write_timeout_ms,
        )
        self._runtime = CoordinatorRuntime(settings=settings, clock=clock, log=log)

    # The node's side

    def partition_for(self, transactional_id: str) -> int | None:
        """Return the partition of ``__transaction_state`` that holds the id; None while there is no such topic."""
        return self._runtime.partition_for(transactional_id)

    def on_elected(self, partition: int, leader_epoch: LeaderEpoch, batches: Iterable[RecordBatch]) -> None:
        """See `CoordinatorRuntime.on_elected`."""
        self._runtime.on_elected(partition, leader_epoch, batches)

    def on_resigned(self, partition: int, leader_epoch: LeaderEpoch | None = None) -> None:
        """See `CoordinatorRuntime.on_resigned`."""
        self._runtime.on_resigned(partition, leader_epoch)

    def on_metadata_update(self, delta: MetadataDelta) -> None:
        """Do nothing: a marker for a partition that is gone is dropped when it is sent."""

    def tick(self, now_ms: int) -> int | None:
        """Do what is due, and return when the next call is due."""
        runtime_ms, markers_ms = self._runtime.tick(now_ms), self._markers.tick(now_ms)
        return min((due_ms for due_ms in (runtime_ms, markers_ms) if due_ms is not None), default=None)

    def next_deadline_ms(self) -> int | None:
        deadlines = (self._runtime.next_deadline_ms(), self._markers.next_deadline_ms())
        return min((due_ms for due_ms in deadlines if due_ms is not None), default=None)

    # Requests

    def initialize(self, request: Initialization) -> Delayed[InitProducerIdResponse]:
        def failed(error: ErrorCode) -> InitProducerIdResponse:
            return InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER_EPOCH)

        def run(new_producer_id: int | None) -> Delayed[InitProducerIdResponse | NeedsProducerId]:
            return self._runtime.run_write_operation(
                request.transactional_id, lambda shard: initialize(shard, request, new_producer_id), failed
            )

        if not 0 < request.timeout_ms <= self._config.max_timeout_ms:
            return Delayed.of(failed(ErrorCode.INVALID_TRANSACTION_TIMEOUT))
        return run_with_producer_id(run, self._producer_ids, failed)

    def add_partitions(self, request: Enlistment) -> Delayed[ErrorCode]:
        if not request.transactional_id:
            return Delayed.of(ErrorCode.INVALID_REQUEST)
        now_ms = self._clock.wall_ms()
        return self._runtime.run_write_operation(
            request.transactional_id, lambda shard: add_partitions(shard, request, now_ms), lambda error: error
        )

    def verify_partitions(self, request: Enlistment) -> Delayed[ErrorCode | frozenset[TopicPartition]]:
        """Return the partitions that are not in the transaction, or the error of all of them."""

        def verify(shard: TransactionShard) -> ErrorCode | frozenset[TopicPartition]:
            return frozenset(missing_partitions(shard, request))

        if not request.transactional_id:
            return Delayed.of(ErrorCode.INVALID_REQUEST)
        return self._runtime.run_read_operation(
            request.transactional_id, verify, lambda error: error, must_be_latest=True
        )

    def end_transaction(self, request: End) -> Delayed[EndTxnResponse]:
        def failed(error: ErrorCode) -> EndTxnResponse:
            return EndTxnResponse(error_code=error)

        def run(new_producer_id: int | None) -> Delayed[EndTxnResponse | NeedsProducerId]:
            return self._runtime.run_write_operation(
                request.transactional_id, lambda shard: end_transaction(shard, request, new_producer_id), failed
            )

        if not request.transactional_id:
            return Delayed.of(failed(ErrorCode.INVALID_REQUEST))
        return run_with_producer_id(run, self._producer_ids, failed)

    def describe(self, transactional_id: str) -> TransactionMetadata:
        """Return the metadata of an id.

        Raises:
            KafkaError: INVALID_REQUEST, TRANSACTIONAL_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        metadata = self._runtime.context_for(transactional_id).shard.transactions.get(transactional_id)
        if metadata is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return metadata

    def count_partitions(self) -> Counter[ContextState]:
        """See `CoordinatorRuntime.count_partitions`."""
        return self._runtime.count_partitions()

    @property
    def is_loading(self) -> bool:
        """Whether a partition is being loaded, so that `all_transactions` is incomplete."""
        return self._runtime.is_loading

    def all_transactions(self) -> list[list[TransactionMetadata]]:
        """Return the metadata of all ids, by partition."""
        return [list(shard.transactions.values()) for shard in self._runtime.active_shards()]

    def sample(self) -> TransactionSample:
        """Return the counts for the metrics."""
        shards = self._runtime.active_shards()
        return TransactionSample(
            ids=sum(len(shard.transactions) for shard in shards),
            open=sum(shard.open_count for shard in shards),
            awaiting_markers=len(self._markers),
        )

    # MarkerQueue

    def send(self, metadata: TransactionMetadata) -> None:
        context = self._runtime.context_for(metadata.transactional_id)
        self._markers.send(metadata, context.leader_epoch)

    def is_sending(self, metadata: TransactionMetadata) -> bool:
        return self._markers.is_sending(metadata)

    def cancel(self, transactional_ids: Iterable[str]) -> None:
        self._markers.cancel(transactional_ids)

    def _on_markers_written(self, metadata: TransactionMetadata) -> None:
        def complete(shard: TransactionShard) -> CoordinatorResult[TransactionRecord, None]:
            return shard.complete(metadata)

        # An error needs no reaction: the shard repeats what was rejected, and a new coordinator starts over.
        self._runtime.run_write_operation(metadata.transactional_id, complete, lambda _: None)
