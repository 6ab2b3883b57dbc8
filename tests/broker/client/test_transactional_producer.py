"""The transactional producer: requests under both protocols, and errors that are abortable or fatal.

The scripted coordinator responds as recorded from JVM Kafka (``tests/broker/transactions/scenarios``).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.results import CommittedOffset
from ottla.client.transaction_requests import GroupMetadata
from ottla.client.transactional_producer import TransactionalProducer, TransactionState
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.records import parse_batch

GROUP = GroupMetadata("g", 3, "member-1")
OFFSETS = {TopicPartition("t", 1): CommittedOffset(offset=17)}


@dataclass
class Coordinator:
    """Scripts of one broker that is coordinator and leader; ``errors`` are the first codes by request."""

    broker: Any
    level: int
    errors: dict[type, list[int]] = field(default_factory=dict)
    producer_id: int = 7
    epoch: int = -1

    def __post_init__(self) -> None:
        broker = self.broker
        broker.serve_topic("t", [1, 1])
        feature = FinalizedFeatureKey(name="transaction.version", max_version_level=self.level, min_version_level=1)
        broker.scripts[ApiVersionsRequest] = lambda _: ApiVersionsResponse(
            api_keys=broker._api_keys(), finalized_features=[feature] if self.level else []
        )
        broker.scripts[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
            node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
        )
        broker.scripts[InitProducerIdRequest] = self.initialize
        broker.scripts[AddPartitionsToTxnRequest] = self.add_partitions
        broker.scripts[AddOffsetsToTxnRequest] = lambda request: AddOffsetsToTxnResponse(error_code=self.code(request))
        broker.scripts[ProduceRequest] = self.produce
        broker.scripts[TxnOffsetCommitRequest] = self.commit_offsets
        broker.scripts[EndTxnRequest] = self.end

    def code(self, request: Any) -> int:
        left = self.errors.get(type(request))
        return left.pop(0) if left else 0

    def initialize(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        if code := self.code(request):
            return InitProducerIdResponse(error_code=code, producer_epoch=-1)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=self.epoch)

    def add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        code = self.code(request)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def produce(self, request: ProduceRequest) -> ProduceResponse:
        code = self.code(request)
        entries = [
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1 if code else 0)
            for data in request.topic_data[0].partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=entries)])

    def commit_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        code = self.code(request)
        entries = [TxnOffsetCommitResponsePartition(partition_index=1, error_code=code)]
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=entries)])

    def end(self, request: EndTxnRequest) -> EndTxnResponse:
        if code := self.code(request):
            return EndTxnResponse(error_code=code)
        if self.level < 2:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=self.producer_id, producer_epoch=self.epoch)

    def run(self, work: Callable[[TransactionalProducer], Awaitable[None]]) -> TransactionState:
        """Run ``work`` on a producer; return the producer's state at its end."""

        async def run() -> TransactionState:
            async with asyncio.timeout(10), self.broker:
                producer = TransactionalProducer([self.broker.endpoint], transactional_id="id", linger_ms=0)
                await producer.init_transactions()
                await work(producer)
                state = producer.state
                await producer.close()
                return state

        return asyncio.run(run())

    def batches(self) -> list[tuple[int, int, bool]]:
        """Return epoch, first sequence, and whether it is transactional, of each batch received."""
        parsed = [
            parse_batch(data.records)
            for request in self.broker.sent(ProduceRequest)
            for data in request.topic_data[0].partition_data
        ]
        return [(batch.producer_epoch, batch.base_sequence, batch.is_transactional) for batch in parsed]

    def ends(self) -> list[tuple[int, bool]]:
        return [(request.producer_epoch, request.committed) for request in self.broker.sent(EndTxnRequest)]


@pytest.fixture(params=[1, 2], ids=["version-1", "version-2"])
def coordinator(broker: Any, request: pytest.FixtureRequest) -> Coordinator:
    return Coordinator(broker, request.param)


@pytest.fixture
def version_1(broker: Any) -> Coordinator:
    return Coordinator(broker, 1)


@pytest.fixture
def version_2(broker: Any) -> Coordinator:
    return Coordinator(broker, 2)


async def two_transactions(producer: TransactionalProducer) -> None:
    for _ in range(2):
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        await producer.commit_transaction()


async def failing(producer: TransactionalProducer) -> None:
    """Fail to commit a record, then abort and commit another one."""
    producer.begin_transaction()
    lost = await producer.send("t", b"a", partition=0)
    with pytest.raises(KafkaError):
        await producer.commit_transaction()
    assert isinstance(lost.exception(), KafkaError)
    with pytest.raises(KafkaError):
        await producer.send("t", b"b", partition=0)
    await producer.abort_transaction()
    producer.begin_transaction()
    await producer.send("t", b"c", partition=0)
    await producer.commit_transaction()


def test_version_1_enlists_partitions_and_group_before_the_data(version_1: Coordinator) -> None:
    assert version_1.run(two_transactions) is TransactionState.READY

    names = [type(request).__name__.removesuffix("Request") for request in version_1.broker.requests]
    order = [name for name in names if name not in ("ApiVersions", "Metadata", "FindCoordinator", "InitProducerId")]
    assert [name for name in order if name not in ("AddOffsetsToTxn", "TxnOffsetCommit")] == [
        "AddPartitionsToTxn",
        "Produce",
        "EndTxn",
    ] * 2
    assert [name for name in order if "Offset" in name] == ["AddOffsetsToTxn", "TxnOffsetCommit"] * 2
    assert version_1.batches() == [(0, 0, True), (0, 1, True)]
    assert version_1.ends() == [(0, True), (0, True)]


def test_version_2_sends_data_at_once_and_uses_the_next_epoch(version_2: Coordinator) -> None:
    assert version_2.run(two_transactions) is TransactionState.READY

    assert not version_2.broker.sent(AddPartitionsToTxnRequest)
    assert not version_2.broker.sent(AddOffsetsToTxnRequest)
    assert version_2.batches() == [(0, 0, True), (1, 0, True)]
    assert version_2.ends() == [(0, True), (1, True)]


def test_requests_carry_the_transactional_id_and_the_member(coordinator: Coordinator) -> None:
    coordinator.run(two_transactions)

    produce, commit = coordinator.broker.sent(ProduceRequest)[0], coordinator.broker.sent(TxnOffsetCommitRequest)[0]
    assert produce.transactional_id == "id"
    assert (commit.transactional_id, commit.group_id, commit.generation_id, commit.member_id) == (
        "id",
        "g",
        3,
        "member-1",
    )
    assert (commit.topics[0].partitions[0].committed_offset, commit.producer_id) == (17, 7)


def test_transaction_without_records_needs_no_coordinator(coordinator: Coordinator) -> None:
    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        await producer.commit_transaction()
        producer.begin_transaction()
        await producer.abort_transaction()

    assert coordinator.run(work) is TransactionState.READY
    assert coordinator.ends() == []


def test_abort_drops_queued_records(version_2: Coordinator) -> None:
    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        dropped = await producer.send("t", b"a", partition=0)
        await producer.abort_transaction()
        assert isinstance(dropped.exception(), ClientError)

    version_2.run(work)
    assert version_2.batches() == []


def test_abort_after_delivery_is_sent(coordinator: Coordinator) -> None:
    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()
        await producer.abort_transaction()

    assert coordinator.run(work) is TransactionState.READY
    assert coordinator.ends() == [(0, False)]


@pytest.mark.parametrize(
    "code", [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_rejected_batch_is_abortable_and_its_sequence_is_not_used_again(
    coordinator: Coordinator, code: ErrorCode
) -> None:
    coordinator.errors[ProduceRequest] = [code]

    assert coordinator.run(failing) is TransactionState.READY
    assert coordinator.ends() == [(0, False), (1, True)]
    assert coordinator.batches() == [(0, 0, True), (1, 0, True)]


def test_version_1_increases_its_epoch_by_its_identity(version_1: Coordinator) -> None:
    version_1.errors[ProduceRequest] = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]

    version_1.run(failing)
    first, second = version_1.broker.sent(InitProducerIdRequest)
    assert (first.producer_id, first.producer_epoch) == (-1, -1)
    assert (second.producer_id, second.producer_epoch) == (7, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.UNSUPPORTED_VERSION]
)
def test_fatal_error_of_a_batch_leaves_the_producer_unusable(coordinator: Coordinator, code: ErrorCode) -> None:
    coordinator.errors[ProduceRequest] = [code]

    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        for step in (producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(KafkaError) as raised:
                await step()
            assert raised.value.code is code
        with pytest.raises(KafkaError):
            producer.begin_transaction()

    assert coordinator.run(work) is TransactionState.FATAL_ERROR
    assert coordinator.ends() == []


def test_fenced_end_is_fatal_and_old_codes_mean_the_same(coordinator: Coordinator) -> None:
    coordinator.errors[EndTxnRequest] = [ErrorCode.INVALID_PRODUCER_EPOCH]

    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        with pytest.raises(KafkaError) as raised:
            await producer.commit_transaction()
        assert raised.value.code is ErrorCode.PRODUCER_FENCED

    assert coordinator.run(work) is TransactionState.FATAL_ERROR


def test_concurrent_transaction_is_awaited(version_1: Coordinator) -> None:
    busy = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS]
    version_1.errors = {InitProducerIdRequest: busy[:], AddPartitionsToTxnRequest: busy[:], EndTxnRequest: busy[:]}

    assert version_1.run(two_transactions) is TransactionState.READY
    assert len(version_1.broker.sent(ProduceRequest)) == 2


def test_moved_coordinator_is_found_again(coordinator: Coordinator) -> None:
    coordinator.errors[EndTxnRequest] = [ErrorCode.NOT_COORDINATOR]

    assert coordinator.run(two_transactions) is TransactionState.READY
    kinds = [request.key_type for request in coordinator.broker.sent(FindCoordinatorRequest)]
    assert kinds.count(1) == 2


@pytest.mark.parametrize("code", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.TRANSACTION_ABORTABLE])
def test_rejected_offsets_are_abortable(coordinator: Coordinator, code: ErrorCode) -> None:
    coordinator.errors[TxnOffsetCommitRequest] = [code]

    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        with pytest.raises(KafkaError):
            await producer.send_offsets_to_transaction(OFFSETS, GROUP)
        with pytest.raises(KafkaError) as raised:
            await producer.commit_transaction()
        assert raised.value.code is code
        await producer.abort_transaction()

    assert coordinator.run(work) is TransactionState.READY
    assert coordinator.ends() == [(0, False)]


def test_unauthorized_partition_is_abortable_before_its_data_is_sent(version_1: Coordinator) -> None:
    version_1.errors[AddPartitionsToTxnRequest] = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]

    assert version_1.run(failing) is TransactionState.READY
    assert len(version_1.broker.sent(ProduceRequest)) == 1


def test_open_transaction_is_aborted_by_close(coordinator: Coordinator) -> None:
    async def work(producer: TransactionalProducer) -> None:
        producer.begin_transaction()
        await producer.send("t", b"a", partition=0)
        await producer.flush()

    coordinator.run(work)
    assert coordinator.ends() == [(0, False)]


def test_calls_in_another_order_are_rejected(coordinator: Coordinator) -> None:
    async def work(producer: TransactionalProducer) -> None:
        for call in (producer.init_transactions, producer.commit_transaction, producer.abort_transaction):
            with pytest.raises(KafkaError) as raised:
                await call()
            assert raised.value.code is ErrorCode.INVALID_TXN_STATE
        with pytest.raises(KafkaError):
            await producer.send("t", b"a")
        producer.begin_transaction()
        with pytest.raises(KafkaError):
            producer.begin_transaction()

    coordinator.run(work)
