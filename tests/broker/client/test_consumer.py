"""The consumer: records in order from its position, without control and aborted records."""

import asyncio
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer
from ottla.client.errors import BrokerUnreachableError
from ottla.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.types import Endpoint, TopicPartition
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.records import (
    ControlRecordType,
    Record,
    build_batch,
    build_empty_batch,
    build_end_transaction_marker,
    parse_batch,
)

T0 = TopicPartition("t", 0)


def batch(base: int, *values: bytes, **options: Any) -> bytes:
    records = [Record(base + index, 1000 + base + index, None, value) for index, value in enumerate(values)]
    return build_batch(records, base_offset=base, **options)


def serve(broker: Any, *responses: PartitionData) -> None:
    """Respond to fetches of t-0 with ``responses`` in order; the last one is repeated."""
    broker.serve_topic("t", [1])
    left = list(responses)

    def respond(_: FetchRequest) -> FetchResponse:
        entry = left.pop(0) if len(left) > 1 else left[0]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[entry])])

    broker.scripts[FetchRequest] = respond


def fetch(broker: Any, start: int = 0, fetches: int = 1, **options: Any) -> tuple[list[bytes | None], int]:
    """Return the values of ``fetches`` fetches from ``start``, and the position after them."""

    async def run() -> tuple[list[bytes | None], int]:
        async with broker, Consumer([broker.endpoint], **options) as consumer:
            consumer.assign({T0: start})
            records = [record for _ in range(fetches) for record in await consumer.fetch(max_wait_ms=0)]
            return [record.value for record in records], consumer.positions[T0]

    return asyncio.run(run())


def data(*parts: bytes, **options: Any) -> PartitionData:
    return PartitionData(high_watermark=100, records=b"".join(parts), **options)


def test_records_come_in_order_and_move_the_position(broker: Any) -> None:
    serve(broker, data(batch(0, b"a", b"b"), batch(2, b"c")))

    assert fetch(broker) == ([b"a", b"b", b"c"], 3)


def test_records_before_the_position_are_skipped(broker: Any) -> None:
    serve(broker, data(batch(0, b"a", b"b", b"c")))

    assert fetch(broker, start=1) == ([b"b", b"c"], 3)


def test_partial_batch_is_fetched_again(broker: Any) -> None:
    serve(broker, data(batch(0, b"a"), batch(1, b"b")[:-1]))

    assert fetch(broker) == ([b"a"], 1)


def test_position_skips_gaps_of_compaction(broker: Any) -> None:
    records = [Record(5, 0, None, b"a")]
    serve(broker, data(build_batch(records, base_offset=5, last_offset=9)))

    assert fetch(broker, start=5) == ([b"a"], 10)


def test_control_records_are_hidden(broker: Any) -> None:
    marker = build_end_transaction_marker(
        ControlRecordType.COMMIT, base_offset=1, timestamp_ms=0, producer_id=7, producer_epoch=0, coordinator_epoch=0
    )
    serve(broker, data(batch(0, b"a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), marker))

    assert fetch(broker) == ([b"a"], 2)


def test_aborted_transaction_is_hidden_from_readers_of_committed_records(broker: Any) -> None:
    transaction = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    abort = build_end_transaction_marker(
        ControlRecordType.ABORT, base_offset=2, timestamp_ms=0, producer_id=7, producer_epoch=0, coordinator_epoch=0
    )
    response = data(
        batch(0, b"aborted", producer_id=7, **transaction),
        batch(1, b"other", producer_id=8, **transaction),
        abort,
        batch(3, b"later", producer_id=7, **transaction),
        aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=0)],
    )
    serve(broker, response)

    assert fetch(broker, read_committed=True) == ([b"other", b"later"], 4)
    assert fetch(broker, read_committed=False) == ([b"aborted", b"other", b"later"], 4)


def test_batch_whose_marker_was_compacted_ends_no_aborted_transaction(broker: Any) -> None:
    commit = build_end_transaction_marker(
        ControlRecordType.COMMIT, base_offset=0, timestamp_ms=0, producer_id=7, producer_epoch=0, coordinator_epoch=0
    )
    response = data(
        build_empty_batch(parse_batch(commit)),
        batch(1, b"aborted", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        aborted_transactions=[AbortedTransaction(producer_id=7, first_offset=0)],
    )
    serve(broker, response)

    assert fetch(broker, read_committed=True) == ([], 2)


def test_corrupt_batch_is_an_error(broker: Any) -> None:
    corrupted = bytearray(batch(0, b"a"))
    corrupted[-1] ^= 1
    serve(broker, data(bytes(corrupted)))

    with pytest.raises(CorruptRecordError):
        fetch(broker)


def test_leader_that_moved_is_looked_up_again(broker: Any) -> None:
    serve(broker, PartitionData(error_code=6), data(batch(0, b"a")))

    assert fetch(broker, fetches=2) == ([b"a"], 1)


@pytest.mark.parametrize(("reset", "timestamp"), [("earliest", -2), ("latest", -1)])
def test_lost_position_is_reset(broker: Any, reset: str, timestamp: int) -> None:
    serve(broker, PartitionData(error_code=1), data(batch(40, b"a")))
    broker.scripts[ListOffsetsRequest] = lambda _: ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name="t", partitions=[ListOffsetsPartitionResponse(offset=40)])]
    )

    assert fetch(broker, start=9, fetches=2, offset_reset=reset) == ([b"a"], 41)
    assert broker.sent(ListOffsetsRequest)[0].topics[0].partitions[0].timestamp == timestamp


def test_lost_position_without_a_reset_is_an_error(broker: Any) -> None:
    serve(broker, PartitionData(error_code=1))

    with pytest.raises(KafkaError, match="partition t-0 at offset 9") as caught:
        fetch(broker, start=9)

    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_assigned_fetches_nothing(broker: Any) -> None:
    async def run() -> list[Any]:
        async with broker, Consumer([broker.endpoint]) as consumer:
            return list(await consumer.fetch(max_wait_ms=0))

    assert asyncio.run(run()) == []


def test_high_watermark_of_the_last_response_is_kept(broker: Any) -> None:
    serve(broker, data(batch(0, b"a")))

    async def run() -> dict[TopicPartition, int]:
        async with broker, Consumer([broker.endpoint]) as consumer:
            consumer.assign({T0: 0})
            await consumer.fetch(max_wait_ms=0)
            return consumer.high_watermarks

    assert asyncio.run(run()) == {T0: 100}


def test_lost_leader_is_looked_up_again(make_broker: Any) -> None:
    alive, gone = make_broker(1), make_broker(2)
    gone.endpoint = Endpoint("127.0.0.1", 1)
    serve(alive, data(batch(0, b"a")))
    served = alive.scripts[MetadataRequest]
    alive.serve_topic("t", [2], [alive, gone])

    async def run() -> list[bytes | None]:
        async with alive, Consumer([alive.endpoint]) as consumer:
            consumer.assign({T0: 0})
            assert await consumer.fetch(max_wait_ms=0) == []
            alive.scripts[MetadataRequest] = served
            return [record.value for record in await consumer.fetch(max_wait_ms=0)]

    assert asyncio.run(run()) == [b"a"]


def test_lost_leader_is_an_error_after_the_request_timeout(make_broker: Any) -> None:
    alive, gone = make_broker(1), make_broker(2)
    gone.endpoint = Endpoint("127.0.0.1", 1)
    alive.serve_topic("t", [2], [alive, gone])

    async def run() -> None:
        async with alive, Cluster([alive.endpoint], request_timeout_s=0.02) as cluster:
            consumer = Consumer(cluster)
            consumer.assign({T0: 0})
            while True:
                await consumer.fetch(max_wait_ms=0)

    with pytest.raises(BrokerUnreachableError):
        asyncio.run(run())
