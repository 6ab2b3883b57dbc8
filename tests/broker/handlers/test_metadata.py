"""Metadata and related APIs over the wire; the responses are those recorded from Kafka 4.3.1."""

from collections.abc import Sequence

import pytest

from ottla.errors import ErrorCode
from ottla.handlers import metadata as metadata_handler
from ottla.ports import Chunk
from ottla.simulator.world.single_node import RunningNode, World
from ottla.types import CONSUMER_OFFSETS_TOPIC, ZERO_UUID, Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

UNKNOWN_ID = Uuid(bytes(15) + b"\x09")
NOT_ASKED = -(2**31)


@pytest.fixture
def node(running: RunningNode) -> RunningNode:
    """A node with the topics t (4 partitions) and u (1)."""
    topics = [CreatableTopic(name="t", num_partitions=4), CreatableTopic(name="u", num_partitions=1)]
    for topic in topics:
        topic.replication_factor = 1
    response = running.connect().ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse, 7)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE] * 2
    return running


def ask(node: RunningNode, version: int, *topics: MetadataRequestTopic, **said: bool) -> MetadataResponse:
    request = MetadataRequest(topics=list(topics), **{"allow_auto_topic_creation": False, **said})
    return node.connect().ask(request, MetadataResponse, version)


def named(name: str | None, topic_id: Uuid = ZERO_UUID) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name, topic_id=topic_id)


@pytest.mark.parametrize("version", range(14))
def test_every_version_returns_the_leader(node: RunningNode, version: int) -> None:
    said = {} if version >= 4 else {"allow_auto_topic_creation": True}
    response = ask(node, version, named("t"), **said)

    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "localhost", 9092)]
    (topic,) = response.topics
    assert (topic.error_code, topic.name) == (ErrorCode.NONE, "t")
    assert [
        (each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions
    ] == [(number, 1, [1], [1]) for number in range(4)]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert (topic.topic_id == ZERO_UUID) == (version < 10)


@pytest.mark.parametrize(
    ("version", "topics", "names"),
    [
        pytest.param(0, [], ["t", "u"], id="v0-empty-is-all"),
        pytest.param(1, [], [], id="v1-empty-is-none"),
        pytest.param(1, None, ["t", "u"], id="v1-null-is-all"),
        pytest.param(12, None, ["t", "u"], id="v12-null-is-all"),
    ],
)
def test_all_topics_and_no_topics_are_distinguished(
    node: RunningNode, version: int, topics: list[MetadataRequestTopic] | None, names: list[str]
) -> None:
    response = node.connect().ask(MetadataRequest(topics=topics), MetadataResponse, version)

    assert [topic.name for topic in response.topics] == names


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="unknown"),
        pytest.param("a b", ErrorCode.INVALID_TOPIC_EXCEPTION, id="illegal"),
        pytest.param("", ErrorCode.INVALID_TOPIC_EXCEPTION, id="empty"),
        pytest.param("__cluster_metadata", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="metadata-log"),
    ],
)
@pytest.mark.parametrize("may_create", [True, False])
def test_unknown_topic_name_has_an_error(node: RunningNode, name: str, code: ErrorCode, may_create: bool) -> None:
    (topic,) = ask(node, 12, named(name), allow_auto_topic_creation=may_create).topics

    assert (topic.name, topic.error_code) == (name, code)


def test_missing_topic_is_created_before_the_client_retries(node: RunningNode) -> None:
    first = ask(node, 12, named("fresh"), allow_auto_topic_creation=True).topics[0]
    node.run_until(lambda: node.node.metadata.topic("fresh") is not None)
    second = ask(node, 12, named("fresh")).topics[0]

    assert first.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (second.error_code, len(second.partitions)) == (ErrorCode.NONE, 1)


def test_topic_of_groups_is_internal_and_has_its_own_settings(node: RunningNode) -> None:
    first = ask(node, 8, named(CONSUMER_OFFSETS_TOPIC), allow_auto_topic_creation=True).topics[0]
    node.run_until(lambda: node.node.metadata.topic(CONSUMER_OFFSETS_TOPIC) is not None)

    assert (first.error_code, first.is_internal) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert node.node.metadata.topic_config(CONSUMER_OFFSETS_TOPIC)["cleanup.policy"] == "compact"


def test_topics_are_found_by_id(node: RunningNode) -> None:
    topic_id = node.node.metadata.topic_id("t")
    assert topic_id is not None

    known, unknown = ask(node, 12, named(None, topic_id), named(None, UNKNOWN_ID)).topics

    assert (known.name, known.error_code) == ("t", ErrorCode.NONE)
    assert (unknown.name, unknown.error_code, unknown.topic_id) == (None, ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID)


@pytest.mark.parametrize(
    ("version", "topic", "code"),
    [
        pytest.param(10, named(None), ErrorCode.INVALID_REQUEST, id="v10-nothing"),
        pytest.param(10, named("t", UNKNOWN_ID), ErrorCode.INVALID_REQUEST, id="v10-id"),
        pytest.param(12, named(None), ErrorCode.UNKNOWN_SERVER_ERROR, id="v12-nothing"),
    ],
)
def test_topic_with_neither_name_nor_id_is_rejected(
    node: RunningNode, version: int, topic: MetadataRequestTopic, code: ErrorCode
) -> None:
    response = ask(node, version, topic)

    assert response.brokers == []
    assert [each.error_code for each in response.topics] == [code]


def test_duplicate_topic_name_is_returned_once(node: RunningNode) -> None:
    assert [topic.name for topic in ask(node, 12, named("t"), named("t")).topics] == ["t"]


@pytest.mark.parametrize(("asks", "bits"), [(True, 3576), (False, NOT_ASKED)])
def test_authorized_operations_are_returned_on_request(node: RunningNode, asks: bool, bits: int) -> None:
    said = {"include_cluster_authorized_operations": asks, "include_topic_authorized_operations": asks}
    response = ask(node, 8, named("t"), **said)

    assert response.topics[0].topic_authorized_operations == bits
    assert response.cluster_authorized_operations == (8096 if asks else NOT_ASKED)


def test_development_node_advertises_the_address_of_the_connection(world: World) -> None:
    node = world.start_node(**{"ottla.advertise.dialled.address": "true"})

    response = ask(node, 12)

    assert [(each.host, each.port) for each in response.brokers] == [("localhost", 9092)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_cluster_is_described(node: RunningNode, version: int) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)

    response = node.connect().ask(request, DescribeClusterResponse, version)

    assert [(each.broker_id, each.host, each.port) for each in response.brokers] == [(1, "localhost", 9092)]
    assert (response.controller_id, response.cluster_authorized_operations) == (1, 8096)


@pytest.mark.parametrize(
    ("endpoint_type", "code", "message"),
    [
        pytest.param(
            2,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
            id="controllers",
        ),
        pytest.param(7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type 7", id="unknown"),
    ],
)
def test_broker_listener_describes_brokers_only(
    node: RunningNode, endpoint_type: int, code: ErrorCode, message: str
) -> None:
    response = node.connect().ask(DescribeClusterRequest(endpoint_type=endpoint_type), DescribeClusterResponse, 1)

    assert (response.error_code, response.error_message) == (code, message)


def pages(node: RunningNode, limit: int, *names: str) -> list[list[tuple[str | None, list[int]]]]:
    found = []
    cursor: DescribeTopicPartitionsRequestCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        response = node.connect().ask(request, DescribeTopicPartitionsResponse, 0)
        found.append([(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics])
        if response.next_cursor is None:
            return found
        cursor = DescribeTopicPartitionsRequestCursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(2_000, [[("t", [0, 1, 2, 3]), ("u", [0])]], id="one-page"),
        pytest.param(3, [[("t", [0, 1, 2])], [("t", [3]), ("u", [0])]], id="cut-within-a-topic"),
        pytest.param(4, [[("t", [0, 1, 2, 3])], [("u", [0])]], id="cut-between-topics"),
        pytest.param(0, [[("t", [number])] for number in range(4)] + [[("u", [0])]], id="at-least-one"),
    ],
)
def test_partitions_are_returned_in_pages(
    node: RunningNode, limit: int, expected: list[list[tuple[str | None, list[int]]]]
) -> None:
    assert pages(node, limit) == expected


def test_cursor_at_a_deleted_topic_does_not_shorten_the_next_topic(node: RunningNode) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="gone"), TopicRequest(name="t")],
        cursor=DescribeTopicPartitionsRequestCursor(topic_name="gone", partition_index=2),
    )

    response = node.connect().ask(request, DescribeTopicPartitionsResponse, 0)

    assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("gone", 0), ("t", 4)]


def test_cursor_outside_the_request_is_rejected(node: RunningNode) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="t")],
        cursor=DescribeTopicPartitionsRequestCursor(topic_name="zz", partition_index=0),
    )

    response = node.connect().ask(request, DescribeTopicPartitionsResponse, 0)

    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", ErrorCode.INVALID_REQUEST)]


LARGE_PARTITIONS = 40


@pytest.fixture
def large(running: RunningNode) -> RunningNode:
    """A node with a topic whose encoded partitions are cached."""
    topic = CreatableTopic(name="large", num_partitions=LARGE_PARTITIONS, replication_factor=1)
    response = running.connect().ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
    assert [topic.error_code for topic in response.topics] == [ErrorCode.NONE]
    return running


@pytest.mark.parametrize("version", range(14))
def test_cached_encoding_equals_a_new_one(large: RunningNode, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {} if version >= 4 else {"allow_auto_topic_creation": True}
    responses = [ask(large, version, named("large"), **said) for _ in range(2)]
    monkeypatch.setattr(metadata_handler, "_FEWEST_PARTITIONS_KEPT", LARGE_PARTITIONS + 1)
    responses.append(ask(large, version, named("large"), **said))

    fresh, cached, uncached = (response.encode(version) for response in responses)
    assert fresh == cached == uncached
    assert len(responses[0].topics[0].partitions) == LARGE_PARTITIONS


@pytest.mark.parametrize("version", range(4, 14))
def test_partitions_with_other_leaders_and_replicas_are_encoded_as_they_are(large: RunningNode, version: int) -> None:
    partitions = large.node.metadata.image.topics.by_name["large"].partitions
    assert isinstance(partitions, dict)
    for index, change in enumerate(
        [{"leader": -1}, {"leader_epoch": 9}, {"isr": ()}, {"replicas": (2, 1)}, {"replicas": (1, 2), "isr": (1, 2)}]
    ):
        partitions[3 * index] = partitions[3 * index]._replace(**change)

    (topic,) = ask(large, version, named("large")).topics

    assert [each.partition_index for each in topic.partitions] == list(range(LARGE_PARTITIONS))
    assert [each.leader_id for each in topic.partitions[:4]] == [-1, 1, 1, 1]
    assert [each.isr_nodes for each in topic.partitions[6:14:3]] == [[], [1], [1, 2]]
    assert [each.replica_nodes for each in topic.partitions[9:14:3]] == [[2, 1], [1, 2]]
    if version >= 5:
        assert [each.offline_replicas for each in topic.partitions[6:14:3]] == [[], [2], [2]]
    if version >= 7:
        assert topic.partitions[3].leader_epoch == 9


def test_responses_about_a_very_large_topic_share_its_encoding(
    large: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of clients that do not read their responses would each take as much memory."""
    more = CreatePartitionsTopic(name="large", count=600, assignments=None)
    large.connect().ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), CreatePartitionsResponse, 3)
    large.run(100)
    sent: list[Sequence[Chunk]] = []
    send = large.network.send
    monkeypatch.setattr(
        large.network, "send", lambda connection, chunks: (sent.append(chunks), send(connection, chunks))[1]
    )

    responses = [ask(large, 12, named("large")) for _ in range(2)]

    assert [len(response.topics[0].partitions) for response in responses] == [600, 600]
    (_, first, _), (_, second, _) = sent
    assert len(first) > 15_000
    assert first is second


def test_each_version_has_its_own_cached_encoding(large: RunningNode) -> None:
    for _ in range(2):
        for version in range(4, 14):
            (topic,) = ask(large, version, named("large")).topics
            assert [each.partition_index for each in topic.partitions] == list(range(LARGE_PARTITIONS))


def test_added_partitions_are_in_the_next_response(large: RunningNode) -> None:
    before = ask(large, 12, named("large")).topics[0]
    more = CreatePartitionsTopic(name="large", count=LARGE_PARTITIONS + 1, assignments=None)
    large.connect().ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), CreatePartitionsResponse, 3)
    large.run(100)

    assert len(before.partitions) == LARGE_PARTITIONS
    assert len(ask(large, 12, named("large")).topics[0].partitions) == LARGE_PARTITIONS + 1
