"""WriteTxnMarkers: markers in the log of each partition, and errors as JVM Kafka 4.3.1 returned them."""

from typing import Any, NamedTuple

import pytest

from ottla.errors import ErrorCode
from ottla.log.partition_log import AppendOrigin
from ottla.simulator.clients.requests import batch_of, create_topic, fetch
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.wire.records import Compression, iterate_batches

NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID_EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
SERVER_ERROR = ErrorCode.UNKNOWN_SERVER_ERROR

Results = dict[int, dict[tuple[str, int], ErrorCode]]


class Marker(NamedTuple):
    """One marker of a request; ``version`` of its transaction, sent from version 2 of the API on."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    partitions: dict[str, list[int]]
    version: int = 0
    is_commit: bool = True


def write(client: Client, *markers: Marker, api_version: int = 2) -> Results:
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.epoch,
                transaction_result=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.version,
                topics=[
                    WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
                    for name, indexes in marker.partitions.items()
                ],
            )
            for marker in markers
        ]
    )
    response = client.ask(request, WriteTxnMarkersResponse, api_version)
    return {
        result.producer_id: {
            (topic.name, partition.partition_index): ErrorCode(partition.error_code)
            for topic in result.topics
            for partition in topic.partitions
        }
        for result in response.markers
    }


def producers(client: Client, partition: int = 0, topic: str = "t") -> list[ProducerState]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    return client.ask(request, DescribeProducersResponse, 0).topics[0].partitions[0].active_producers


def append_transactional(client: Client, running: RunningNode, producer_id: int, epoch: int = 0) -> None:
    """Append a batch of a transaction as a coordinator does: without the verification of a producer's."""
    replicas = running.node.replicas
    batch = batch_of(client, [b"a"], producer_id=producer_id, producer_epoch=epoch, is_transactional=True)
    replicas.append(replicas.get("t", 0), bytearray(batch), origin=AppendOrigin.COORDINATOR, required_acks=-1)


@pytest.fixture
def client(running: RunningNode) -> Client:
    """Of a node with the topic t, which has three partitions."""
    client = running.connect()
    create_topic(client, "t", partitions=3)
    return client


STEPS: list[tuple[Marker, ErrorCode]] = [
    (Marker(1, 0, 3, {"t": [0]}), NONE),
    (Marker(1, 0, 2, {"t": [0]}), FENCED),
    (Marker(1, 0, 4, {"t": [0]}), NONE),
    (Marker(1, 1, 4, {"t": [0]}, is_commit=False), NONE),
    (Marker(1, 0, 5, {"t": [0]}), INVALID_EPOCH),
    (Marker(1, 1, 5, {"t": [0]}, 2), NONE),
    (Marker(1, 2, 5, {"t": [0]}, 2), NONE),
    (Marker(1, 1, 5, {"t": [0]}, 2), INVALID_EPOCH),
    (Marker(1, 9, -1, {"t": [0]}, 2), FENCED),
    (Marker(8, 0, 1, {"t": [0]}, 77), NONE),
    (Marker(8, 0, -5, {"t": [0]}, -3), FENCED),
    (Marker(-1, 9, 1, {"t": [0]}, 2), SERVER_ERROR),
    (Marker(7, -1, 1, {"t": [0]}, 2), SERVER_ERROR),
    (Marker(-5, 0, 1, {"t": [0]}, 2), NONE),
    (Marker(9, 0, -1, {"t": [0]}), NONE),
]
"""Sent one after the other, without any open transaction."""


def test_markers_without_a_transaction_have_kafkas_errors(client: Client) -> None:
    errors = [write(client, marker)[marker.producer_id]["t", 0] for marker, _ in STEPS]

    assert errors == [error for _, error in STEPS]
    assert [(each.producer_id, each.producer_epoch, each.coordinator_epoch) for each in producers(client)] == [
        (1, 2, 5),
        (8, 0, 1),
        (9, 0, -1),
    ]


@pytest.mark.parametrize("api_version", [1, 2])
@pytest.mark.parametrize(
    ("markers", "results"),
    [
        pytest.param([], {}, id="no-markers"),
        pytest.param([Marker(1, 0, 0, {})], {}, id="no-topics"),
        pytest.param([Marker(1, 0, 0, {"t": []})], {}, id="no-partitions"),
        pytest.param(
            [Marker(1, 0, 0, {"t": [0, 9, -1], "nothing": [0]})],
            {1: {("t", 0): NONE, ("t", 9): UNKNOWN, ("t", -1): UNKNOWN, ("nothing", 0): UNKNOWN}},
            id="unknown-partitions",
        ),
        pytest.param(
            [Marker(1, 0, 4, {"t": [0]}), Marker(1, 1, 4, {"t": [1, 2]}), Marker(2, 0, 4, {"t": [2]})],
            {1: {("t", 0): NONE, ("t", 1): NONE, ("t", 2): NONE}, 2: {("t", 2): NONE}},
            id="producer-with-two-markers",
        ),
        pytest.param(
            [Marker(1, 1, 4, {"t": [0]}), Marker(1, 0, 4, {"t": [0]})],
            {1: {("t", 0): INVALID_EPOCH}},
            id="last-marker-of-a-producer-counts",
        ),
        pytest.param(
            [Marker(1, 0, 4, {"__consumer_offsets": [0]})],
            {1: {("__consumer_offsets", 0): UNKNOWN}},
            id="offsets-topic-that-does-not-exist",
        ),
    ],
)
def test_results_are_by_producer_and_partition(
    client: Client, api_version: int, markers: list[Marker], results: Results
) -> None:
    assert write(client, *markers, api_version=api_version) == results


def test_partition_that_is_listed_twice_has_one_marker(client: Client, running: RunningNode) -> None:
    assert write(client, Marker(1, 0, 0, {"t": [0, 0]})) == {1: {("t", 0): NONE}}
    assert running.node.replicas.get("t", 0).log.log_end_offset == 1


@pytest.mark.parametrize(
    ("version", "epoch", "error"),
    [
        pytest.param(0, 3, NONE, id="version-0-same-epoch"),
        pytest.param(1, 3, NONE, id="version-1-same-epoch"),
        pytest.param(2, 3, INVALID_EPOCH, id="version-2-same-epoch"),
        pytest.param(2, 4, NONE, id="version-2-next-epoch"),
        pytest.param(1, 2, INVALID_EPOCH, id="version-1-earlier-epoch"),
    ],
)
def test_marker_ends_an_open_transaction_of_an_epoch_that_its_version_allows(
    client: Client, running: RunningNode, version: int, epoch: int, error: ErrorCode
) -> None:
    append_transactional(client, running, producer_id=1, epoch=3)

    assert write(client, Marker(1, epoch, 0, {"t": [0]}, version)) == {1: {("t", 0): error}}
    assert producers(client)[0].current_txn_start_offset == (-1 if error is NONE else 0)


@pytest.mark.parametrize("is_commit", [True, False])
def test_end_of_a_transaction_moves_the_last_stable_offset(
    client: Client, running: RunningNode, is_commit: bool
) -> None:
    append_transactional(client, running, producer_id=1)
    log = running.node.replicas.get("t", 0).log
    assert (log.last_stable_offset, log.high_watermark) == (0, 1)

    write(client, Marker(1, 0, 0, {"t": [0]}, is_commit=is_commit))

    assert (log.last_stable_offset, log.high_watermark) == (2, 2)
    aborted = log.read(0, size_bytes_max=1_000, with_aborted_transactions=True).aborted_transactions
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in aborted or ()] == (
        [] if is_commit else [(1, 0, 1)]
    )


def test_marker_is_not_compressed_and_has_the_append_time(client: Client) -> None:
    create_topic(client, "gzip", compression_type="gzip", message_timestamp_type="LogAppendTime")

    write(client, Marker(1, 0, 7, {"gzip": [0]}))

    (batch,) = iterate_batches(fetch(client, "gzip", 0).records)
    assert batch.is_control
    assert batch.is_transactional
    assert batch.compression is Compression.NONE
    assert batch.max_timestamp_ms == client.node.clock.wall_ms()


def test_too_few_in_sync_replicas_reject_a_marker(client: Client, running: RunningNode) -> None:
    partition = running.node.replicas.get("t", 0)
    partition.isr.in_sync = ()

    assert write(client, Marker(1, 0, 0, {"t": [0]})) == {1: {("t", 0): ErrorCode.NOT_ENOUGH_REPLICAS}}
    assert partition.log.log_end_offset == 0


def test_partition_that_another_node_leads_has_no_marker(client: Client, running: RunningNode) -> None:
    partition = running.node.replicas.get("t", 0)
    partition.leader = 2

    assert write(client, Marker(1, 0, 0, {"t": [0]})) == {1: {("t", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER}}
    assert partition.log.log_end_offset == 0


def test_response_waits_for_the_commit(client: Client, running: RunningNode) -> None:
    partition: Any = running.node.replicas.get("t", 0)
    commits: list[int] = []
    advance = type(partition).advance_high_watermark
    request = WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=1, producer_epoch=0, topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
            )
        ]
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(partition), "advance_high_watermark", lambda *_: commits.append(1))
        client.send(request, 2)
        running.run(100)
        assert commits
        assert client.response_to(request, 2) is None
    advance(partition, running.clock.monotonic_ms())
    running.node.replicas.on_committed([partition.topic_partition])
    running.run(10)

    assert client.response_to(request, 2) is not None


def test_marker_that_is_not_committed_in_time_has_timed_out(client: Client, running: RunningNode) -> None:
    partition: Any = running.node.replicas.get("t", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(partition), "advance_high_watermark", lambda *_: False)

        assert write(client, Marker(1, 0, 0, {"t": [0]})) == {1: {("t", 0): ErrorCode.REQUEST_TIMED_OUT}}


def test_client_without_a_permission_on_the_cluster_is_rejected() -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    running = World().start_node(authorizer_class_name=authorizer, super_users="User:admin")

    marker = Marker(1, 0, 0, {"t": [0]})
    assert write(running.connect(), marker) == {1: {("t", 0): ErrorCode.CLUSTER_AUTHORIZATION_FAILED}}
