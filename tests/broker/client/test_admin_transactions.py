"""Transactions for administrators: lists, descriptions, and the search for those that hang."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from ottla.client.admin import AdminClient
from ottla.client.errors import UnsupportedApiError
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.list_transactions import TransactionState as ListedTransaction
from ottla.wire.messages.registry import ApiKey
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000
ResultT = TypeVar("ResultT")


def ask(broker: Any, call: Callable[[AdminClient], Awaitable[ResultT]]) -> ResultT:
    async def run() -> ResultT:
        async with broker, AdminClient([broker.endpoint]) as admin:
            return await call(admin)

    return asyncio.run(run())


def serve(broker: Any, *known: TransactionState, producers: tuple[ProducerState, ...] = ()) -> None:
    """Respond as the coordinator of ``known`` and the leader of t-0, which knows ``producers``, and of t-1."""
    broker.serve_topic("t", [1, 1])
    broker.scripts[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        node_id=1, host=broker.endpoint.host, port=broker.endpoint.port
    )

    def describe(request: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
        (wanted,) = request.transactional_ids
        missing = TransactionState(
            transactional_id=wanted, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, producer_id=-1
        )
        return DescribeTransactionsResponse(
            transaction_states=[next((it for it in known if it.transactional_id == wanted), missing)]
        )

    def list_(request: ListTransactionsRequest) -> ListTransactionsResponse:
        return ListTransactionsResponse(
            transaction_states=[
                ListedTransaction(
                    transactional_id=it.transactional_id,
                    producer_id=it.producer_id,
                    transaction_state=it.transaction_state,
                )
                for it in known
                if not request.producer_id_filters or it.producer_id in request.producer_id_filters
            ]
        )

    def describe_producers(request: DescribeProducersRequest) -> DescribeProducersResponse:
        return DescribeProducersResponse(
            topics=[
                TopicResponse(
                    name=topic.name,
                    partitions=[
                        PartitionResponse(partition_index=index, active_producers=[] if index else list(producers))
                        for index in topic.partition_indexes
                    ],
                )
                for topic in request.topics
            ]
        )

    broker.scripts[DescribeTransactionsRequest] = describe
    broker.scripts[ListTransactionsRequest] = list_
    broker.scripts[DescribeProducersRequest] = describe_producers


def transaction(transactional_id: str, producer_id: int, state: str, *partitions: int) -> TransactionState:
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=7 if partitions else -1,
        producer_id=producer_id,
        topics=[TopicData(topic="t", partitions=list(partitions))] if partitions else [],
    )


def producer(producer_id: int, *, start_offset: int = 5, last_timestamp: int = NOW_MS - 10) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=2,
        last_timestamp=last_timestamp,
        coordinator_epoch=-1,
        current_txn_start_offset=start_offset,
    )


def hanging(broker: Any) -> list[tuple[int, str | None]]:
    found = ask(broker, lambda admin: admin.find_hanging_transactions([T0, T1], idle_since_ms=NOW_MS))
    return [(it.producer.producer_id, it.transactional_id) for it in found]


def test_transactions_are_listed_with_their_coordinator(broker: Any) -> None:
    serve(broker, transaction("b", 2, "Empty"), transaction("a", 1, "Ongoing", 0))

    listed = ask(broker, lambda admin: admin.list_transactions(states=["Ongoing", "Empty"], pattern=".*"))

    assert [(it.transactional_id, it.producer_id, it.state, it.coordinator_id) for it in listed] == [
        ("a", 1, "Ongoing", 1),
        ("b", 2, "Empty", 1),
    ]
    (request,) = broker.sent(ListTransactionsRequest)
    assert (request.state_filters, request.duration_filter, request.transactional_id_pattern) == (
        ["Empty", "Ongoing"],
        -1,
        ".*",
    )


def test_filter_that_an_older_broker_does_not_have_is_an_error(broker: Any) -> None:
    serve(broker, transaction("a", 1, "Ongoing", 0))
    broker.versions[ApiKey.LIST_TRANSACTIONS] = (0, 1)

    assert len(ask(broker, lambda admin: admin.list_transactions(open_for_ms=5))) == 1
    with pytest.raises(UnsupportedApiError, match="does not have this filter"):
        ask(broker, lambda admin: admin.list_transactions(pattern="a"))


def test_description_has_partitions_and_times(broker: Any) -> None:
    serve(broker, transaction("a", 1, "Ongoing", 1, 0), transaction("b", 2, "Empty"))

    described = ask(broker, lambda admin: admin.describe_transactions(["a", "b", "nope"]))

    assert set(described) == {"a", "b"}
    assert (described["a"].partitions, described["a"].start_ms, described["a"].is_open) == ((T0, T1), 7, True)
    assert (described["b"].partitions, described["b"].start_ms, described["b"].is_open) == ((), None, False)


def test_transaction_that_its_coordinator_will_end_does_not_hang(broker: Any) -> None:
    serve(broker, transaction("a", 1, "Ongoing", 0), producers=(producer(1),))

    assert hanging(broker) == []


@pytest.mark.parametrize(
    "known",
    [transaction("a", 1, "CompleteCommit"), transaction("a", 1, "Ongoing", 1)],
    ids=["ended", "without-this-partition"],
)
def test_transaction_without_this_partition_at_its_coordinator_hangs(broker: Any, known: TransactionState) -> None:
    serve(broker, known, producers=(producer(1),))

    assert hanging(broker) == [(1, "a")]


def test_transaction_of_an_unknown_producer_hangs(broker: Any) -> None:
    serve(broker, transaction("a", 1, "Ongoing", 0), producers=(producer(8),))

    assert hanging(broker) == [(8, None)]


def test_recent_records_and_ended_transactions_are_not_suspected(broker: Any) -> None:
    serve(broker, producers=(producer(8, last_timestamp=NOW_MS + 1), producer(9, start_offset=-1)))

    assert hanging(broker) == []
    assert not broker.sent(ListTransactionsRequest)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_abort_in_a_partition_writes_a_marker_with_the_producers_epoch(broker: Any, code: ErrorCode) -> None:
    serve(broker, producers=(producer(8),))
    broker.scripts[WriteTxnMarkersRequest] = lambda _: WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=8,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name="t", partitions=[WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)]
                    )
                ],
            )
        ]
    )

    async def abort(admin: AdminClient) -> None:
        (found,) = await admin.describe_producers([T0])
        await admin.abort_in_partition(found)

    if code:
        with pytest.raises(KafkaError, match=code.name):
            ask(broker, abort)
    else:
        ask(broker, abort)
    (marker,) = broker.sent(WriteTxnMarkersRequest)[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (
        8,
        2,
        0,
        False,
    )
    assert (marker.topics[0].name, marker.topics[0].partition_indexes) == ("t", [0])
