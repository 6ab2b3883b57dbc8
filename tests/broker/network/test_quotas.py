"""Quotas over the wire: throttle times, for how long a connection is not read, and what that must not break."""

import struct
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.simulator.clients.requests import batch_of, create_topic, fetch_request
from ottla.simulator.world.single_node import LOCKED, SASL_LISTENER, Client, RunningNode, World
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.registry import ApiKey, response_type
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest


def set_limit(node: RunningNode, entity: dict[str, str | None], **limits: float | None) -> None:
    """Set quotas of the tests' clients; ``client_id`` stands for ``client-id``."""
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(entity_type=kind.replace("_", "-"), entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in limits.items()],
            )
        ]
    )
    response = node.connect().ask(request, AlterClientQuotasResponse, 1)
    assert response.entries[0].error_code == ErrorCode.NONE
    node.run(20)


def produce_request(client: Client, size_bytes: int, *, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch_of(client, [b"x" * size_bytes]))
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def produce(client: Client, size_bytes: int) -> int:
    """Produce one record and return the throttle time."""
    response = client.ask(produce_request(client, size_bytes), ProduceResponse, 9)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return response.throttle_time_ms


def ask(client: Client, request: Message, version: int) -> Any:
    return client.ask(request, response_type(ApiKey(request.api_key)), version)


@pytest.fixture
def limited(running: RunningNode) -> RunningNode:
    """A node whose client may produce 10,000 bytes a second, 100,000 at once."""
    create_topic(running.connect(), "t", partitions=3)
    set_limit(running, {"client_id": "test"}, producer_byte_rate=10_000)
    return running


def test_client_above_its_rate_is_throttled_and_not_read(limited: RunningNode) -> None:
    client = limited.connect()
    assert produce(client, 90_000) == 0

    throttle_ms = produce(client, 20_000)

    assert 1_000 <= throttle_ms <= 1_100
    assert not client.peer.is_read_from
    limited.run(throttle_ms - 20)
    assert not client.peer.is_read_from
    limited.run(40)
    assert client.peer.is_read_from
    limited.run(12_000)
    assert produce(client, 90_000) == 0, "the window has passed"


def test_acks_0_above_the_rate_gets_no_response_and_is_not_read(limited: RunningNode) -> None:
    client = limited.connect()
    client.send(produce_request(client, 110_000, acks=0), 9)

    assert client.take_frame() is None
    assert not client.peer.is_read_from
    limited.run(1_100)
    assert client.peer.is_read_from


def test_pipelined_requests_are_served_in_order_after_the_throttle_time(limited: RunningNode) -> None:
    client = limited.connect()
    frames = [client.frame(produce_request(client, size_bytes), 9) for size_bytes in (110_000, 10, 10)]
    client.send_bytes(b"".join(frames))

    assert correlation_id(client) == 1
    assert correlation_id(client) is None
    limited.run(1_200)
    assert [correlation_id(client), correlation_id(client)] == [2, None], "it is still above the rate"
    limited.run(1_200)
    assert correlation_id(client) == 3
    limited.run(1_200)
    assert client.peer.is_read_from


def correlation_id(client: Client) -> int | None:
    frame = client.take_frame()
    return None if frame is None else struct.unpack_from(">i", frame)[0]


def test_throttled_connection_is_not_idle(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="30000")
    create_topic(running.connect(), "t")
    set_limit(running, {"client_id": "test"}, producer_byte_rate=1_000)
    client = running.connect()
    assert produce(client, 100_000) > 80_000

    running.run(80_000)
    assert not client.is_closed
    running.run(30_000)
    assert not client.is_closed, "the time while it was throttled does not count"
    running.run(20_000)
    assert client.is_closed


def test_throttled_connection_may_be_closed(limited: RunningNode) -> None:
    client = limited.connect()
    produce(client, 110_000)
    limited.node.closed(client.peer.connection, "gone")
    assert limited.node.connections.muted == 0
    limited.run(12_000)

    assert produce(limited.connect(), 10) == 0


def test_requests_of_throttled_connection_are_served_after_hang_up(limited: RunningNode) -> None:
    client = limited.connect()
    client.send_bytes(client.frame(produce_request(client, 110_000), 9) + client.frame(produce_request(client, 10), 9))
    assert client.take_frame() is not None

    assert client.take_frame() is None
    assert limited.node.serves_rest(client.peer.connection)
    limited.run(12_000)
    assert client.take_frame() is not None


def test_throttled_connection_with_unread_responses_resumes_when_both_are_over(limited: RunningNode) -> None:
    client = limited.connect()
    client.peer.takes_bytes = False
    limited.network.queued_size_bytes_max = 0
    client.send(produce_request(client, 110_000), 9)
    limited.run(1_500)
    assert not client.peer.is_read_from, "its response has not been read yet"

    limited.network.take(client.peer)
    limited.node.drained(client.peer.connection)
    assert client.peer.is_read_from

    limited.network.queued_size_bytes_max = 0
    client.send(produce_request(client, 110_000), 9)
    limited.network.take(client.peer)
    limited.node.drained(client.peer.connection)
    assert not client.peer.is_read_from, "its throttle time is not over yet"


def test_raised_or_removed_limit_applies_from_the_next_request(limited: RunningNode) -> None:
    client = limited.connect()
    assert produce(client, 200_000) > 9_000
    set_limit(limited, {"client_id": "test"}, producer_byte_rate=50_000)

    assert not client.peer.is_read_from, "the reported throttle time is kept"
    assert produce(limited.connect(), 10) == 0
    set_limit(limited, {"client_id": "test"}, producer_byte_rate=None)
    assert produce(limited.connect(), 900_000) == 0


def test_quota_may_name_the_anonymous_user(running: RunningNode) -> None:
    create_topic(running.connect(), "t")
    set_limit(running, {"user": "ANONYMOUS"}, producer_byte_rate=1_000)

    assert produce(running.connect(), 20_000) > 9_000


def test_fetch_above_the_rate_is_empty_and_the_next_one_is_not(running: RunningNode) -> None:
    create_topic(running.connect(), "t")
    for _ in range(4):
        produce(running.connect(), 40_000)
    set_limit(running, {"client_id": "test"}, consumer_byte_rate=10_000)
    client = running.connect()

    first = client.ask(fetch_request("t", 0, size_bytes_max=90_000), FetchResponse, 12)
    second = client.ask(fetch_request("t", 0), FetchResponse, 12)

    assert 40_000 <= sum(len(data.records or b"") for data in first.responses[0].partitions) <= 100_000
    assert first.throttle_time_ms == 0
    assert second.responses == []
    assert second.throttle_time_ms > 0
    assert not client.peer.is_read_from
    running.run(20_000)
    third = client.ask(fetch_request("t", 2), FetchResponse, 12)
    assert third.responses[0].partitions[0].records


def test_session_of_an_emptied_response_is_not_kept(running: RunningNode) -> None:
    create_topic(running.connect(), "t")
    produce(running.connect(), 90_000)
    set_limit(running, {"client_id": "test"}, consumer_byte_rate=9_100)
    running.connect().ask(fetch_request("t", 0), FetchResponse, 12)
    request = fetch_request("t", 0)
    request.session_epoch = 0

    response = running.connect().ask(request, FetchResponse, 12)

    assert response.throttle_time_ms > 0
    assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
    assert len(running.node.services.fetch_sessions) == 0


def test_session_continues_after_an_emptied_response(running: RunningNode) -> None:
    create_topic(running.connect(), "t")
    client = running.connect()
    request = fetch_request("t", 0)
    request.session_epoch = 0
    began = client.ask(request, FetchResponse, 12)
    produce(client, 95_000)
    set_limit(running, {"client_id": "test"}, consumer_byte_rate=9_500)

    def continue_session(epoch: int) -> FetchResponse:
        request = fetch_request("t", 0)
        request.session_id, request.session_epoch, request.topics = began.session_id, epoch, []
        return client.ask(request, FetchResponse, 12)

    emptied = continue_session(1)
    assert emptied.throttle_time_ms > 0
    assert (emptied.error_code, emptied.session_id, emptied.responses) == (0, began.session_id, [])
    running.run(emptied.throttle_time_ms + 20)
    assert continue_session(2).responses[0].partitions[0].records


@pytest.mark.parametrize(
    ("request_of", "version", "is_strict"),
    [
        pytest.param(lambda: create("n", 1), 6, True, id="create-v6"),
        pytest.param(lambda: create("n", 1), 5, False, id="create-v5"),
        pytest.param(lambda: enlarge("t", 5), 3, True, id="enlarge-v3"),
        pytest.param(lambda: enlarge("t", 5), 2, False, id="enlarge-v2"),
        pytest.param(lambda: delete("t"), 5, True, id="delete-v5"),
        pytest.param(lambda: delete("t"), 4, False, id="delete-v4"),
    ],
)
def test_topic_changes_are_throttled_to_the_rate(
    limited: RunningNode, request_of: Any, version: int, is_strict: bool
) -> None:
    set_limit(limited, {"client_id": "test"}, controller_mutation_rate=1)
    assert ask(limited.connect(), create("many", 20), 7).throttle_time_ms == 0
    client = limited.connect()

    response = ask(client, request_of(), version)

    results = getattr(response, {0: "topics", 1: "results", 2: "responses"}[kind_of(response)])
    expected = ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else ErrorCode.NONE
    assert [each.error_code for each in results] == [expected]
    assert (9_000 if is_strict else 10_000) - 500 <= response.throttle_time_ms <= 12_000
    assert not client.peer.is_read_from
    assert limited.node.services.quotas.throttles.by_kind["controller_mutation_rate"].count == 1


def kind_of(response: Message) -> int:
    return [hasattr(response, name) for name in ("topics", "results", "responses")].index(True)


def create(name: str, partitions: int) -> Message:
    return CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)], timeout_ms=9_000
    )


def enlarge(name: str, count: int) -> Message:
    return CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)])


def delete(name: str) -> Message:
    return DeleteTopicsRequest(topic_names=[name], topics=[DeleteTopicState(name=name)][:0], timeout_ms=9_000)


def test_rejected_topics_do_not_count_for_the_quota(limited: RunningNode) -> None:
    set_limit(limited, {"client_id": "test"}, controller_mutation_rate=1)
    for _ in range(3):
        response = ask(limited.connect(), create("t", 20), 7)
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

    assert ask(limited.connect(), create("n", 1), 7).topics[0].error_code == ErrorCode.NONE


def request_metadata(client: Client, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    code: int = client.ask(request, MetadataResponse, 9).topics[0].error_code
    return code


def test_auto_created_topics_count_for_the_clients_quota(limited: RunningNode) -> None:
    set_limit(limited, {"client_id": "test"}, controller_mutation_rate=1)
    ask(limited.connect(), create("many", 20), 7)

    assert request_metadata(limited.connect(), "asked") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    limited.run(1_000)
    assert request_metadata(limited.connect(), "asked") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    limited.run(12_000)
    request_metadata(limited.connect(), "asked")
    limited.run(1_000)

    assert request_metadata(limited.connect(), "asked") == ErrorCode.NONE, "the bucket has tokens again"


def accept(running: RunningNode, host: str, listener: str = "PLAINTEXT") -> Client:
    peer = running.network.open()
    assert running.node.accepted(
        peer.connection, listener=listener, peer=Endpoint(host, 1), local_address=Endpoint("localhost", 9092)
    )
    return Client(running, peer)


def test_connection_above_the_rate_of_its_address_is_closed_with_a_delay(running: RunningNode) -> None:
    set_limit(running, {"ip": "10.0.0.9"}, connection_creation_rate=1)
    within = [accept(running, "10.0.0.9") for _ in range(10)]
    above = accept(running, "10.0.0.9")
    other = accept(running, "10.0.0.8")

    assert not above.peer.is_read_from
    assert running.node.connections.muted == 1
    assert not running.node.serves_rest(above.peer.connection), "it will never be served"
    running.run(980)
    assert not above.is_closed
    running.run(40)
    assert above.is_closed
    assert not any(client.is_closed for client in (*within, other))
    assert ask(other, MetadataRequest(topics=[]), 9).cluster_id is not None


def test_accepting_is_paused_above_the_nodes_rate_except_for_controllers(world: World) -> None:
    running = world.start_node(max_connection_creation_rate="2")
    for _ in range(20):
        accept(running, "10.0.0.9")
    assert running.network.accepting_paused == []
    accept(running, "10.0.0.9", "CONTROLLER")
    assert running.network.accepting_paused == []

    accept(running, "10.0.0.9")

    assert running.network.accepting_paused == [("PLAINTEXT", 500)]


def test_connection_creation_rate_may_be_set_per_listener(world: World) -> None:
    running = world.start_node(**{"listener.name.plaintext.max.connection.creation.rate": "1"})
    for _ in range(11):
        accept(running, "10.0.0.9")

    assert running.network.accepting_paused == [("PLAINTEXT", 1_000)]


def test_without_quotas_nothing_is_measured(running: RunningNode) -> None:
    client = running.connect()
    create_topic(client, "t")
    produce(client, 900_000)

    assert client.ask(MetadataRequest(topics=[]), MetadataResponse, 9).throttle_time_ms == 0
    assert set(running.node.services.quotas.measured().values()) == {0}


def test_authentication_requests_count_for_no_quota(world: World) -> None:
    running = world.start_node(**LOCKED)
    set_limit(running, {"user": None}, request_percentage=1)
    client = running.connect(SASL_LISTENER)
    ask(client, ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    ask(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert ask(client, SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2).error_code == ErrorCode.NONE
    assert running.node.services.quotas.measured()["request_percentage"] == 0

    ask(client, MetadataRequest(topics=[]), 9)

    assert running.node.services.quotas.measured()["request_percentage"] == 1
