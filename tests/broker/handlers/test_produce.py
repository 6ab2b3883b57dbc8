"""Produce: appended batches have offsets in the response; rejected ones change nothing."""

import struct

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce, records_in
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.records import Compression


@pytest.fixture
def client(running: RunningNode) -> Client:
    client = running.connect()
    create_topic(client, "t", partitions=2)
    return client


@pytest.mark.parametrize("acks", [1, -1], ids=["leader", "all"])
@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_records_are_read_in_order_with_their_offsets(client: Client, acks: int, version: int) -> None:
    first = produce(client, "t", batch_of(client, [b"a", b"b"]), acks=acks, version=version)
    second = produce(client, "t", batch_of(client, [b"c"]), acks=acks, version=version)

    assert (first.error_code, first.base_offset, second.base_offset) == (ErrorCode.NONE, 0, 2)
    assert [(record.offset, record.value) for record in records_in(fetch(client, "t", 0))] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]


@pytest.mark.parametrize("compression", list(Compression), ids=lambda kind: kind.label)
def test_compressed_batch_is_stored_unchanged(client: Client, compression: Compression) -> None:
    response = produce(client, "t", batch_of(client, [b"x" * 100, b"y" * 100], compression=compression))

    assert response.error_code == ErrorCode.NONE
    assert [record.value for record in records_in(fetch(client, "t", 0))] == [b"x" * 100, b"y" * 100]


def test_unknown_topics_have_no_counters(client: Client) -> None:
    counters = client.node.node.replicas.traffic.by_topic
    before = set(counters)

    for number in range(3):
        rejected = produce(client, f"missing-{number}", batch_of(client, [b"a"]))
        assert rejected.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetch(client, f"missing-{number}", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert set(counters) == before


def test_rejected_produces_are_counted_for_the_topic(client: Client) -> None:
    produce(client, "t", b"")
    fetch(client, "t", 1)

    counted = client.node.node.replicas.traffic_of("t")
    assert (counted.failed_produce_requests, counted.failed_fetch_requests) == (1, 1)


def flipped(batch: bytes, position: int) -> bytes:
    return batch[:position] + bytes([batch[position] ^ 1]) + batch[position + 1 :]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        pytest.param(lambda batch: flipped(batch, len(batch) - 1), ErrorCode.CORRUPT_MESSAGE, id="a-flipped-bit"),
        pytest.param(lambda batch: flipped(batch, 16), ErrorCode.CORRUPT_MESSAGE, id="another-magic"),
        pytest.param(lambda batch: batch[:-1], ErrorCode.INVALID_RECORD, id="cut-off"),
        pytest.param(lambda batch: batch + batch, ErrorCode.INVALID_RECORD, id="two-batches"),
        pytest.param(lambda batch: b"", ErrorCode.INVALID_RECORD, id="nothing"),
        pytest.param(lambda batch: None, ErrorCode.INVALID_RECORD, id="null"),
    ],
)
def test_bad_batch_is_rejected_and_not_written(client: Client, spoil, code: ErrorCode) -> None:  # noqa: ANN001
    response = produce(client, "t", spoil(batch_of(client, [b"a"])))

    assert ErrorCode(response.error_code) is code
    assert response.base_offset == -1
    assert fetch(client, "t", 0).high_watermark == 0


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        pytest.param("missing", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-topic"),
        pytest.param("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no-such-partition"),
    ],
)
def test_unknown_partition_is_rejected(client: Client, topic: str, partition: int, code: ErrorCode) -> None:
    response = produce(client, topic, batch_of(client, [b"a"]), partition=partition)

    assert ErrorCode(response.error_code) is code


def test_acks_other_than_minus_one_to_one_are_rejected(client: Client) -> None:
    response = produce(client, "t", batch_of(client, [b"a"]), acks=2)

    assert ErrorCode(response.error_code) is ErrorCode.INVALID_REQUIRED_ACKS


def test_batch_above_the_limit_is_rejected(client: Client) -> None:
    create_topic(client, "small", max_message_bytes="200")

    fits = produce(client, "small", batch_of(client, [b"x" * 100]))
    too_large = produce(client, "small", batch_of(client, [b"x" * 200]))

    assert ErrorCode(fits.error_code) is ErrorCode.NONE
    assert ErrorCode(too_large.error_code) is ErrorCode.MESSAGE_TOO_LARGE


def test_bad_partition_does_not_affect_the_others(client: Client) -> None:
    good = PartitionProduceData(index=0, records=batch_of(client, [b"a"]))
    bad = PartitionProduceData(index=7, records=batch_of(client, [b"b"]))
    topic = TopicProduceData(name="t", partition_data=[bad, good])

    response = client.ask(ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]), ProduceResponse, 9)

    codes = {
        partition.index: ErrorCode(partition.error_code) for partition in response.responses[0].partition_responses
    }
    assert codes == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0: ErrorCode.NONE}


def test_duplicate_batch_returns_its_first_offset(client: Client) -> None:
    batch = batch_of(client, [b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=0)

    first = produce(client, "t", bytearray(batch))
    again = produce(client, "t", bytearray(batch))

    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, ErrorCode.NONE)
    assert fetch(client, "t", 0).high_watermark == 2


def test_gap_in_the_sequence_is_rejected(client: Client) -> None:
    produce(client, "t", batch_of(client, [b"a"], producer_id=7, producer_epoch=0, base_sequence=0))

    response = produce(client, "t", batch_of(client, [b"b"], producer_id=7, producer_epoch=0, base_sequence=2))

    assert ErrorCode(response.error_code) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_transactional_batch_without_a_transactional_id_is_rejected(client: Client) -> None:
    batch = batch_of(client, [b"a"], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)

    assert ErrorCode(produce(client, "t", batch).error_code) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_acks_zero_has_no_response(client: Client) -> None:
    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch_of(client, [b"a"]))])
    client.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic]), 9)

    assert client.take_frame() is None
    assert not client.is_closed
    assert fetch(client, "t", 0).high_watermark == 1


def test_error_with_acks_zero_closes_the_connection(client: Client) -> None:
    topic = TopicProduceData(
        name="missing", partition_data=[PartitionProduceData(index=0, records=batch_of(client, [b"a"]))]
    )
    client.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic]), 9)

    assert client.is_closed


def test_too_few_in_sync_replicas_reject_acks_all_only(client: Client) -> None:
    create_topic(client, "strict", min_insync_replicas="2")

    # More than there are replicas is taken as "all of them" (KIP-966), so that one replica is enough for itself.
    assert produce(client, "strict", batch_of(client, [b"a"]), acks=-1).error_code == ErrorCode.NONE


def test_acknowledged_records_survive_the_end_of_the_process(world: World) -> None:
    client = world.start_node().connect()
    create_topic(client, "t")
    for number in range(20):
        assert produce(client, "t", batch_of(client, [struct.pack(">i", number)])).error_code == ErrorCode.NONE
    world.disk.kill()

    again = world.start_node().connect()

    values = [struct.unpack(">i", record.value or b"")[0] for record in records_in(fetch(again, "t", 0))]
    assert values == list(range(20))


@pytest.mark.parametrize("acks", [1, -1], ids=["leader", "all"])
def test_records_acknowledged_with_acks_fsync_survive_a_power_cut(world: World, acks: int) -> None:
    client = world.start_node(ottla_acks_fsync="true").connect()
    create_topic(client, "t")
    for number in range(5):
        assert produce(client, "t", batch_of(client, [b"%d" % number]), acks=acks).error_code == ErrorCode.NONE
    world.disk.crash()

    running = world.start_node(ottla_acks_fsync="true")
    running.run(100)
    again = running.connect()

    assert [record.value for record in records_in(fetch(again, "t", 0))] == [b"0", b"1", b"2", b"3", b"4"]


def test_one_sync_acknowledges_all_waiting_producers_with_acks_fsync(world: World) -> None:
    running = world.start_node(ottla_acks_fsync="true")
    client = running.connect()
    create_topic(client, "t")
    producers = [running.connect() for _ in range(20)]
    request = ProduceRequest(
        acks=1,
        timeout_ms=1_000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch_of(client, [b"x"]))])
        ],
    )
    before = world.disk.operations["sync"]
    for producer in producers:
        producer.send(request, 9)
    waiting = [producer.take_frame() for producer in producers]
    running.run(50)

    assert waiting == [None] * 20
    assert all(producer.take_frame() is not None for producer in producers)
    # The first sync covers one append, the second all that came meanwhile; a sync is of a few files.
    assert world.disk.operations["sync"] - before < 20


# --- batches that take long to check


def large_batch(client: Client, count: int = 20_000, **options: int) -> bytes:
    return batch_of(client, [b"v" * (index % 5) for index in range(count)], **options)


@pytest.mark.parametrize("acks", [1, -1], ids=["leader", "all"])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD], ids=lambda kind: kind.label)
@pytest.mark.parametrize("topic_compression", ["producer", "lz4"])
def test_large_batches_are_appended_in_the_order_of_their_requests(
    running: RunningNode, compression: Compression, topic_compression: str, acks: int
) -> None:
    client = running.connect()
    create_topic(client, "large", compression_type=topic_compression)
    options = {"producer_id": 7, "producer_epoch": 0}
    batches = [
        large_batch(client, 5_000, compression=compression, base_sequence=0, **options),
        large_batch(client, 3, compression=compression, base_sequence=5_000, **options),
        large_batch(client, 4_000, compression=compression, base_sequence=5_003, **options),
    ]
    requests = [request_with("large", batch, acks=acks) for batch in batches]
    client.send_bytes(b"".join(client.frame(request, 9) for request in requests))

    responses = []
    for _ in range(3):
        running.run_until(lambda: len(client.peer.received) > 4)
        frame = client.take_frame()
        assert frame is not None
        responses.append(ProduceResponse.decode(memoryview(frame), 9, 5).responses[0].partition_responses[0])

    assert [(response.error_code, response.base_offset) for response in responses] == [(0, 0), (0, 5_000), (0, 5_003)]


def request_with(topic: str, batch: bytes, *, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])])


@pytest.mark.parametrize("version", [9, 10])
def test_partition_removed_while_its_batch_is_checked_is_not_written(client: Client, version: int) -> None:
    """Only from v10 on does the response have a place for the current leader."""
    node = client.node.node
    client.send(request_with("t", large_batch(client, compression=Compression.GZIP)), version)
    partition = node.replicas.get("t", 0)
    partition.leader = 2
    client.node.run(100)
    response = client.response_to(ProduceRequest(), version)

    assert isinstance(response, ProduceResponse)
    found = response.responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.log.log_end_offset == 0


def test_client_that_disconnects_during_a_check_frees_its_memory(client: Client, running: RunningNode) -> None:
    running.background.run_count = 0
    client.send(request_with("t", large_batch(client, compression=Compression.GZIP)), 9)
    memory = running.node.services.work_memory
    assert memory.held_bytes > 0
    running.node.closed(client.peer.connection, "it has gone")
    running.run(100)

    assert memory.held_bytes == 0
    assert running.node.replicas.get("t", 0).log.log_end_offset == 0


def test_batch_is_checked_where_no_thread_can_be_created(client: Client, running: RunningNode) -> None:
    running.background.fail_next(100)

    response = produce(client, "t", large_batch(client, compression=Compression.GZIP))

    assert (response.error_code, response.base_offset) == (ErrorCode.NONE, 0)


def test_bad_batch_of_a_request_does_not_affect_the_others(client: Client) -> None:
    large = large_batch(client, compression=Compression.GZIP)
    parts = [
        PartitionProduceData(index=0, records=flipped(large, len(large) - 1)),
        PartitionProduceData(index=1, records=large),
        PartitionProduceData(index=9, records=large),
    ]
    request = ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=parts)])
    responses = client.ask(request, ProduceResponse, 9).responses[0].partition_responses

    assert [response.error_code for response in responses] == [
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
