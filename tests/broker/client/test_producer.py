"""The producer: batching, order, sequences, and failures."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.errors import ClientError
from ottla.client.partitioner import partition_for_key
from ottla.client.producer import Producer
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records import Compression, RecordBatch, parse_batch, read_records

Outcome = tuple[int, str | None]


def serve(broker: Any, partitions: int = 1, outcomes: list[Outcome] | None = None) -> None:
    """Respond as the leader of topic ``t``; ``outcomes`` are (code, message) for the first batches."""
    broker.serve_topic("t", [1] * partitions)
    next_offset: dict[int, int] = {}
    identities = iter(range(100, 200))
    script = list(outcomes or [])

    def respond(request: ProduceRequest) -> ProduceResponse | None:
        if request.acks == 0:
            return None
        entries = []
        for data in request.topic_data[0].partition_data:
            code, message = script.pop(0) if script else (0, None)
            base = next_offset.get(data.index, 0)
            if code == 0:
                next_offset[data.index] = base + batch_of(data.records).record_count
            errors = [BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message=message)] if message else []
            entries.append(
                PartitionProduceResponse(
                    index=data.index, error_code=code, base_offset=-1 if code else base, record_errors=errors
                )
            )
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=entries)])

    broker.scripts[ProduceRequest] = respond
    broker.scripts[InitProducerIdRequest] = lambda _: InitProducerIdResponse(
        producer_id=next(identities), producer_epoch=0
    )


def batch_of(data: Any) -> RecordBatch:
    return parse_batch(data)


def batches(broker: Any) -> list[RecordBatch]:
    """Return every batch that the broker received."""
    return [
        batch_of(data.records)
        for request in broker.sent(ProduceRequest)
        for topic in request.topic_data
        for data in topic.partition_data
    ]


def values(batch: RecordBatch) -> list[bytes | None]:
    return [record.value for record in read_records(batch, size_bytes_max=1 << 20)]


def produce(broker: Any, *payloads: bytes, **options: Any) -> list[Any]:
    """Send ``payloads`` to partition 0 of topic t; return the result of each."""

    async def run() -> list[Any]:
        async with broker, Producer([broker.endpoint], **options) as producer:
            sent = [await producer.send("t", payload, partition=0) for payload in payloads]
            await producer.flush()
            return await asyncio.gather(*sent, return_exceptions=True)

    return asyncio.run(run())


def test_records_sent_together_are_in_one_batch(broker: Any) -> None:
    serve(broker)

    landed = produce(broker, b"a", b"b", b"c")

    assert [metadata.offset for metadata in landed] == [0, 1, 2]
    assert [values(batch) for batch in batches(broker)] == [[b"a", b"b", b"c"]]


def test_batches_are_numbered_without_gaps(broker: Any) -> None:
    serve(broker)

    produce(broker, b"x" * 60, b"y" * 60, b"z" * 60, batch_size_bytes=100)

    numbers = [(batch.producer_id, batch.base_sequence, batch.record_count) for batch in batches(broker)]
    assert numbers == [(100, 0, 1), (100, 1, 1), (100, 2, 1)]


def test_retriable_batch_is_resent_unchanged(broker: Any) -> None:
    serve(broker, outcomes=[(6, None), (0, None)])

    landed = produce(broker, b"a")

    first, second = batches(broker)
    assert landed[0].offset == 0
    assert bytes(first.data) == bytes(second.data)


def test_duplicate_batch_counts_as_delivered(broker: Any) -> None:
    serve(broker, outcomes=[(46, None)])

    assert produce(broker, b"a")[0].offset == -1


@pytest.mark.parametrize(
    "said",
    [{"timestamp_ms": 2**63}, {"headers": [("\udcff", b"")]}, {"timestamp_ms": "soon"}],
    ids=["time-beyond-int64", "name-that-is-no-text", "time-that-is-no-number"],
)
def test_record_that_cannot_be_encoded_fails_alone(broker: Any, said: dict[str, Any]) -> None:
    serve(broker)

    async def run() -> list[Any]:
        async with asyncio.timeout(5), broker, Producer([broker.endpoint]) as producer:
            first = await producer.send("t", b"a", partition=0, **said)
            await producer.flush()
            second = await producer.send("t", b"b", partition=0)
            return await asyncio.gather(first, second, return_exceptions=True)

    failure, landed = asyncio.run(run())
    assert isinstance(failure, ClientError)
    assert "a record for t-0 cannot be encoded" in str(failure)
    assert landed.offset == 0


def test_rejected_batch_fails_with_the_reason_and_the_next_has_a_new_producer_epoch(broker: Any) -> None:
    serve(broker, outcomes=[(87, "record 0 has no key")])

    first, second = produce(broker, b"x" * 60, b"y" * 60, batch_size_bytes=100)

    assert isinstance(first, KafkaError)
    assert (first.code, first.message) == (ErrorCode.INVALID_RECORD, "t-0: record 0 has no key")
    assert second.offset == 0
    assert [(batch.producer_id, batch.base_sequence) for batch in batches(broker)] == [(100, 0), (101, 0)]


@pytest.mark.parametrize("acks", [0, 1])
def test_without_idempotence_records_have_no_numbers(broker: Any, acks: int) -> None:
    serve(broker)

    landed = produce(broker, b"a", acks=acks)

    assert landed[0].offset == (0 if acks else -1)
    assert [(batch.producer_id, batch.base_sequence) for batch in batches(broker)] == [(-1, -1)]


@pytest.mark.parametrize("compression", list(Compression), ids=lambda codec: codec.label)
def test_batches_are_compressed(broker: Any, compression: Compression) -> None:
    serve(broker)

    produce(broker, b"a" * 1000, compression=compression)

    (batch,) = batches(broker)
    assert (batch.compression, values(batch)) == (compression, [b"a" * 1000])


def test_keys_choose_the_partition(broker: Any) -> None:
    serve(broker, partitions=5)

    async def run() -> TopicPartition:
        async with broker, Producer([broker.endpoint]) as producer:
            return (await (await producer.send("t", b"v", key=b"k"))).partition

    assert asyncio.run(run()) == TopicPartition("t", partition_for_key(b"k", 5))


def test_records_without_a_key_share_a_batch(broker: Any) -> None:
    serve(broker, partitions=50)

    async def run() -> set[TopicPartition]:
        async with broker, Producer([broker.endpoint], linger_ms=1000) as producer:
            sent = [await producer.send("t", b"v") for _ in range(20)]
            await producer.flush()
            return {future.result().partition for future in sent}

    assert len(asyncio.run(run())) == 1


def test_headers_and_timestamp_are_sent(broker: Any) -> None:
    serve(broker)

    async def run() -> None:
        async with broker, Producer([broker.endpoint]) as producer:
            await producer.send("t", None, key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=123)

    asyncio.run(run())

    (record,) = read_records(batches(broker)[0], size_bytes_max=1 << 20)
    assert record == (0, 123, b"k", None, (("h", b"1"), ("n", None)))


def test_missing_partition_is_rejected_by_the_client(broker: Any) -> None:
    serve(broker)

    async def run() -> None:
        async with broker, Producer([broker.endpoint]) as producer:
            await producer.send("t", b"v", partition=1)

    with pytest.raises(KafkaError, match="partitions 0 to 0, not 1"):
        asyncio.run(run())


def test_missing_topic_is_rejected_at_once(broker: Any) -> None:
    serve(broker)

    async def run() -> None:
        async with broker, Producer([broker.endpoint]) as producer:
            await producer.send("nope", b"v")

    with pytest.raises(KafkaError, match="there is no topic 'nope'"):
        asyncio.run(run())


def test_full_buffer_blocks_send_until_records_are_delivered(broker: Any) -> None:
    serve(broker)

    landed = produce(broker, *[b"x" * 100] * 50, buffer_size_bytes=300, linger_ms=0)

    assert [metadata.offset for metadata in landed] == list(range(50))


def test_record_fails_after_the_delivery_timeout(broker: Any) -> None:
    serve(broker, outcomes=[(6, None)] * 1000)

    (outcome,) = produce(broker, b"a", delivery_timeout_s=0)

    assert isinstance(outcome, KafkaError)
    assert outcome.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_batches_of_two_leaders_are_sent_in_two_requests(make_broker: Callable[[int], Any]) -> None:
    first, second = make_broker(1), make_broker(2)
    for node in (first, second):
        serve(node)

    async def run() -> None:
        async with first, second, Producer([first.endpoint]) as producer:
            for node in (first, second):
                node.serve_topic("t", [1, 2], [first, second])
            await producer.send("t", b"a", partition=0)
            await producer.send("t", b"b", partition=1)

    asyncio.run(run())

    assert [values(batch) for batch in batches(first)] == [[b"a"]]
    assert [values(batch) for batch in batches(second)] == [[b"b"]]


def test_close_without_a_flush_fails_the_pending_records(broker: Any) -> None:
    serve(broker)

    async def run() -> BaseException | None:
        async with broker:
            producer = Producer([broker.endpoint], linger_ms=60_000)
            sent = await producer.send("t", b"a")
            await producer.close(flush=False)
            return sent.exception()

    assert "closed before" in str(asyncio.run(run()))
