"""Base of simulated clients with a transactional id: coordinator, producer id and epoch, batches, and ends.

A client takes the newest finalized ``transaction.version`` that a connection has reported. From version 2 on, its
requests enlist partitions by themselves, and each transaction has an epoch of its own; below, it sends
AddPartitionsToTxn, and keeps epoch and sequences. An upgrade counts after the end of the transaction under way, and
needs another epoch.

Source: TransactionManager and Sender of Apache Kafka's client; KIP-890.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost
from ottla.simulator.clients.restartable_client import TRANSACTION_KEY, RestartableClient
from ottla.transactions.metadata import EPOCH_PER_TRANSACTION_VERSION
from ottla.types import Endpoint, Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, build_batch

TRANSACTION_TIMEOUT_MS: Final = 5_000
PRODUCE_TIMEOUT_MS: Final = 2_000
OF_COORDINATOR: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class TransactionalClient(RestartableClient):
    """See the module."""

    def __init__(self, host: ClientHost, name: str) -> None:
        super().__init__(host, name)
        self.transactional_id = name
        self.committed_count = 0
        self._coordinator: Endpoint | None = None
        self._is_version_2 = False
        self._producer_id = NO_PRODUCER_ID
        self._producer_epoch = NO_PRODUCER_EPOCH
        self._sequences: dict[tuple[str, int], int] = {}

    def start(self) -> None:
        """Start an instance; the one before ends."""
        raise NotImplementedError

    def _on_initialized(self) -> None:
        """Continue with a producer id and epoch that fence the instances before."""
        raise NotImplementedError

    # --- coordinator

    def _find_own_coordinator(self, then: Callable[[], object]) -> None:
        def set_coordinator(endpoint: Endpoint) -> None:
            self._coordinator = endpoint
            then()

        self._find_coordinator(TRANSACTION_KEY, self.transactional_id, set_coordinator)

    def _ask(self, endpoint: Endpoint, request: Message, purpose: str, then: Callable[[PeerResult], object]) -> None:
        """Send a request in a version of this client's level of ``transaction.version``."""
        self._send(endpoint, request, purpose, then, is_before_version_2=not self._is_version_2)

    def _ask_coordinator(self, request: Message, then: Callable[[PeerResult], object]) -> None:
        assert self._coordinator is not None, "it was found"
        self._ask(self._coordinator, request, self.name, then)

    def _initialize(self) -> None:
        """Initialize the producer of a new instance."""
        self._request_producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

    def _request_producer(self, producer_id: int, producer_epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

        def on_response(response: PeerResult) -> None:
            def again() -> None:
                self._request_producer(producer_id, producer_epoch)

            code = response.error_code if isinstance(response, InitProducerIdResponse) else ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, InitProducerIdResponse) and code == ErrorCode.NONE:
                self._is_version_2 = self._host.transaction_version >= EPOCH_PER_TRANSACTION_VERSION
                self._set_producer(response.producer_id, response.producer_epoch)
                self._on_initialized()
            elif code == ErrorCode.CONCURRENT_TRANSACTIONS:
                self._run_later(again)
            elif producer_id == NO_PRODUCER_ID or code == ErrorCode.NETWORK_EXCEPTION or code in OF_COORDINATOR:
                self._run_later(lambda: self._find_own_coordinator(again))
            else:
                self._run_later(self.start)

        self._ask_coordinator(request, on_response)

    def _set_producer(self, producer_id: int, producer_epoch: int) -> None:
        if (producer_id, producer_epoch) != (self._producer_id, self._producer_epoch):
            self._sequences.clear()
        self._producer_id, self._producer_epoch = producer_id, producer_epoch

    # --- batches

    def _enlist(self, topic: str, partitions: Iterable[int], then: Callable[[], object]) -> None:
        """Add partitions to the transaction, unless their first batch does."""
        if self._is_version_2:
            then()
            return
        wanted = AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[wanted],
        )

        def on_response(response: PeerResult) -> None:
            codes: set[int] = {ErrorCode.NETWORK_EXCEPTION}
            if isinstance(response, AddPartitionsToTxnResponse):
                results = response.results_by_topic_v3_and_below
                codes = {each.partition_error_code for it in results for each in it.results_by_partition}
            self._continue_with(codes, then, lambda: self._enlist(topic, wanted.partitions, then))

        self._ask_coordinator(request, on_response)

    def _continue_with(self, codes: set[int], then: Callable[[], object], again: Callable[[], object]) -> None:
        """Continue after a response of the transaction coordinator: on, once more, or with another instance."""
        codes = codes - {ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED}
        if not codes:
            then()
        elif codes <= OF_COORDINATOR | {ErrorCode.NETWORK_EXCEPTION}:
            self._run_later(lambda: self._find_own_coordinator(again))
        elif codes <= _RETRIABLE:
            self._run_later(again)
        else:
            self._run_later(self.start)  # fenced, or timed out: the transaction is aborted

    def _produce(self, topic: str, partition: int, values: Sequence[bytes], then: Callable[[], object]) -> None:
        """Append one batch, and repeat it until it is acknowledged."""
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + len(values)
        self._send_batch(topic, partition, values, sequence, then)

    def _send_batch(
        self, topic: str, partition: int, values: Sequence[bytes], sequence: int, then: Callable[[], object]
    ) -> None:
        def again() -> None:
            self._send_batch(topic, partition, values, sequence, then)

        target = self._host.target(topic, partition)
        if target is None:
            self._run_later(again)
            return

        def on_response(response: PeerResult) -> None:
            code: int = ErrorCode.NETWORK_EXCEPTION
            if isinstance(response, ProduceResponse):
                code = response.responses[0].partition_responses[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                then()
            elif code in _RETRIABLE:
                self._host.refresh()
                self._run_later(again)
            else:
                self._run_later(self.start)  # fenced, or timed out: the transaction is aborted

        producer = (self._producer_id, self._producer_epoch)
        request = self._batch_request(topic, target.key.topic_id, partition, values, producer, sequence)
        self._ask(target.endpoint, request, f"{self.name}-{topic}-{partition}", on_response)

    def _batch_request(
        self,
        topic: str,
        topic_id: Uuid,
        partition: int,
        values: Sequence[bytes],
        producer: tuple[int, int],
        sequence: int,
    ) -> ProduceRequest:
        now_ms = self._host.cluster.clock.wall_ms()
        records = build_batch(
            [Record(index, now_ms, None, value) for index, value in enumerate(values)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        data = PartitionProduceData(index=partition, records=records)
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
        )

    # --- the end of a transaction

    def _end(self, then: Callable[[], object], *, is_commit: bool) -> None:
        """Commit or abort; the next transaction has the epoch of the response, or one for the upgrade in between."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=is_commit,
        )

        def on_response(response: PeerResult) -> None:
            def again() -> None:
                self._end(then, is_commit=is_commit)

            def on_ended() -> None:
                if is_commit:
                    self.committed_count += 1
                then()
                self._take_next_producer(response)

            code = response.error_code if isinstance(response, EndTxnResponse) else ErrorCode.NETWORK_EXCEPTION
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                self._run_later(again)
            else:
                self._continue_with({code}, on_ended, again)

        self._ask_coordinator(request, on_response)

    def _take_next_producer(self, response: PeerResult) -> None:
        was_version_2 = self._is_version_2
        if was_version_2:
            assert isinstance(response, EndTxnResponse), "it was successful"
            self._set_producer(response.producer_id, response.producer_epoch)
        self._is_version_2 = self._host.transaction_version >= EPOCH_PER_TRANSACTION_VERSION
        if self._is_version_2 and not was_version_2:
            self._request_producer(self._producer_id, self._producer_epoch)
        else:
            self._on_initialized()
