"""ListOffsets, DeleteRecords, OffsetForLeaderEpoch, DescribeLogDirs, DescribeProducers, InitProducerId over a node."""

import errno

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext
from ottla.handlers.catalog import find
from ottla.handlers.offset_for_leader_epoch import STRAIGHT_MAX
from ottla.ports import DiskSpace
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, produce
from ottla.simulator.world.single_node import Client, RunningNode, anonymous_client
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3


@pytest.fixture
def client(running: RunningNode) -> Client:
    """A topic with three batches of two records, a second apart."""
    client = running.connect()
    create_topic(client, "t")
    for first in (b"a", b"c", b"e"):
        produce(client, "t", batch_of(client, [first, bytes([first[0] + 1])]))
        running.run(1_000)
    return client


def list_offset(client: Client, timestamp: int, *, version: int = 8) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[wanted])])
    return client.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", [1, 4, 6, 11])
def test_earliest_and_latest_offsets_of_a_log(client: Client, version: int) -> None:
    assert list_offset(client, EARLIEST, version=version).offset == 0
    assert list_offset(client, LATEST, version=version).offset == 6


def test_first_record_at_or_after_a_timestamp_is_found(client: Client, running: RunningNode) -> None:
    last_ms = running.clock.wall_ms() - 1_000

    assert list_offset(client, last_ms).offset == 4
    assert list_offset(client, last_ms - 999).offset == 4
    assert list_offset(client, last_ms - 1_000).offset == 2
    assert list_offset(client, last_ms + 1).offset == -1


def test_max_timestamp_returns_its_first_record(client: Client) -> None:
    assert list_offset(client, MAX_TIMESTAMP).offset == 4


@pytest.mark.parametrize("timestamp", [-7, -100])
def test_unknown_special_timestamp_is_rejected_in_every_version(client: Client, timestamp: int) -> None:
    for version in (1, 11):
        assert ErrorCode(list_offset(client, timestamp, version=version).error_code) is ErrorCode.UNSUPPORTED_VERSION


def test_untiered_log_has_no_tiered_offset(client: Client) -> None:
    for timestamp in (-5, -6):
        response = list_offset(client, timestamp, version=11)
        assert (response.error_code, response.offset) == (ErrorCode.NONE, -1)


def test_special_timestamp_of_a_newer_version_is_rejected(client: Client) -> None:
    response = list_offset(client, MAX_TIMESTAMP, version=6)

    assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION


def delete_before(client: Client, offset: int, topic: str = "t") -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1_000)
    return client.ask(request, DeleteRecordsResponse, 2).topics[0].partitions[0]


def test_deleted_records_cannot_be_read(client: Client) -> None:
    result = delete_before(client, 4)

    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 4)
    assert list_offset(client, EARLIEST).offset == 4
    assert ErrorCode(fetch(client, "t", 3).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_minus_one_deletes_up_to_the_high_watermark(client: Client) -> None:
    assert delete_before(client, -1).low_watermark == 6


@pytest.mark.parametrize("offset", [-2, 7], ids=["negative", "above-the-high-watermark"])
def test_deletion_to_an_invalid_offset_is_rejected(client: Client, offset: int) -> None:
    assert ErrorCode(delete_before(client, offset).error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert list_offset(client, EARLIEST).offset == 0


def test_records_of_a_compacted_topic_cannot_be_deleted(client: Client) -> None:
    create_topic(client, "compacted", cleanup_policy="compact")

    assert ErrorCode(delete_before(client, 0, "compacted").error_code) is ErrorCode.POLICY_VIOLATION


@pytest.mark.parametrize("policy", ["", "compact,delete"], ids=["none", "both"])
def test_records_of_a_topic_that_is_not_only_compacted_can_be_deleted(client: Client, policy: str) -> None:
    create_topic(client, "u", cleanup_policy=policy)

    assert ErrorCode(delete_before(client, 0, "u").error_code) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("epoch", "end"), [pytest.param(0, (0, 6), id="current"), pytest.param(3, (-1, -1), id="newer-than-known")]
)
def test_end_offset_of_an_epoch_is_returned(client: Client, epoch: int, end: tuple[int, int]) -> None:
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])

    response = client.ask(request, OffsetForLeaderEpochResponse, 4).topics[0].partitions[0]

    assert (response.leader_epoch, response.end_offset) == end


@pytest.mark.parametrize("repeated", [2, 1_000], ids=["few", "many"])
def test_duplicate_partitions_have_duplicate_end_offsets_as_in_kafka(client: Client, repeated: int) -> None:
    topics = [
        OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition(partition=0)] * 2)
        for name in ("t", "t", "no") * repeated
    ]
    response = client.ask(OffsetForLeaderEpochRequest(topics=topics), OffsetForLeaderEpochResponse, 4)

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (topic.topic, [(each.error_code, each.end_offset) for each in topic.partitions]) for topic in response.topics
    ] == [("t", [(0, 6)] * 2), ("t", [(0, 6)] * 2), ("no", [(unknown, -1)] * 2)] * repeated


def test_many_epochs_are_looked_up_in_slices(running: RunningNode, client: Client) -> None:
    served = find(23, 4)
    assert served is not None
    context = RequestContext(23, 4, 1, "c", anonymous_client(), running.node.services, 0)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[OffsetForLeaderPartition(partition=0)])] * 1_000

    slices = list(served.handler(context, OffsetForLeaderEpochRequest(topics=topics)))

    assert len(slices) >= 1_000 * 2 // STRAIGHT_MAX


def test_log_directory_is_described_with_its_logs(client: Client) -> None:
    (result,) = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4).results

    sizes = {topic.name: topic.partitions[0].partition_size for topic in result.topics}
    assert result.log_dir == "/data"
    assert sizes["t"] > 0
    assert result.usable_bytes > 0


def test_log_directory_that_fails_when_described_is_offline(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> DiskSpace:
        raise OSError(errno.EIO, "the disk is gone", path)

    monkeypatch.setattr(client.node.disk, "space", fail)

    response = client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)

    assert response.error_code == ErrorCode.NONE
    assert [(each.log_dir, each.error_code) for each in response.results] == [("/data", ErrorCode.KAFKA_STORAGE_ERROR)]


def test_active_producer_is_described(client: Client) -> None:
    produce(client, "t", batch_of(client, [b"x", b"y"], producer_id=9, producer_epoch=3, base_sequence=0))

    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])
    (producer,) = client.ask(request, DescribeProducersResponse, 0).topics[0].partitions[0].active_producers

    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 3, 1)


def test_every_producer_gets_its_own_id(client: Client) -> None:
    responses = [client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse, 4) for _ in range(3)]

    assert [response.error_code for response in responses] == [ErrorCode.NONE] * 3
    assert len({response.producer_id for response in responses}) == 3


def test_transactional_id_is_initialized_by_its_coordinator_only(client: Client) -> None:
    response = client.ask(
        InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1_000), InitProducerIdResponse, 4
    )

    assert ErrorCode(response.error_code) is ErrorCode.NOT_COORDINATOR  # there is no __transaction_state yet


def test_duplicate_partition_has_one_result(client: Client) -> None:
    """JVM Kafka 4.3 gives INVALID_REQUEST once, in whichever topics of the request the two are."""
    create_topic(client, "u", partitions=2)
    twice = [ListOffsetsPartition(partition_index=0, timestamp=each) for each in (LATEST, EARLIEST)]
    once = ListOffsetsPartition(partition_index=1, timestamp=LATEST)
    for topics in (
        [ListOffsetsTopic(name="u", partitions=[*twice, once])],
        [ListOffsetsTopic(name="u", partitions=[twice[0]]), ListOffsetsTopic(name="u", partitions=[twice[1], once])],
    ):
        response = client.ask(ListOffsetsRequest(topics=topics), ListOffsetsResponse, 8)
        found = [
            (topic.name, part.partition_index, part.error_code)
            for topic in response.topics
            for part in topic.partitions
        ]

        assert found == [("u", 0, ErrorCode.INVALID_REQUEST), ("u", 1, ErrorCode.NONE)]


def test_many_partitions_are_returned_in_order(client: Client) -> None:
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in range(300)]
    response = client.ask(
        ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=wanted)]), ListOffsetsResponse, 8
    )

    found = response.topics[0].partitions
    assert [part.partition_index for part in found] == list(range(300))
    assert [part.error_code for part in found[:2]] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
