"""The pipeline and the connections: bytes that are not a request close their connection, and no other."""

import logging
import struct
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode
from ottla.handlers.api import SERVED
from ottla.handlers.catalog import find
from ottla.network.large_requests import ENTRIES_IN_ONE_GO
from ottla.ports import ConnectionId
from ottla.simulator.clients.requests import batch_of, create_topic, fetch, fetch_request
from ottla.simulator.world.single_node import Client, RunningNode, World
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.messages.registry import ApiKey


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def offset_fetch_request(version: int) -> OffsetFetchRequest:
    """Return a request for 2,000 partitions, as ``version`` structures it."""
    indexes = list(range(2_000))
    if version < 8:
        return OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=indexes)])
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=indexes)
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])])


def header(api_key: int, version: int) -> bytes:
    return struct.pack(">hhih", api_key, version, 7, -1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(struct.pack(">i", -1), "claims a size of -1", id="negative-size"),
        pytest.param(struct.pack(">i", 2**31 - 1), "socket.request.max.bytes", id="2-gib"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00", "TLS hello", id="tls-hello"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "HTTP", id="http"),
        pytest.param(framed(b"\x00\x12\x00\x00"), "too few", id="a-frame-without-a-header"),
        pytest.param(framed(header(999, 0)), "API key 999", id="unknown-api"),
        pytest.param(framed(header(3, 99)), "version 99", id="unknown-version"),
        pytest.param(framed(header(3, 1) + b"\x7f\xff\xff\xff"), "claims a length", id="lying-array"),
        pytest.param(framed(struct.pack(">hhih", 3, 1, 7, 500)), "client id", id="lying-client-id"),
        pytest.param(framed(header(62, 0)), "API key 62", id="a-controllers-api"),
    ],
)
def test_invalid_bytes_close_their_connection_with_one_line_and_a_reason(
    running: RunningNode, caplog: pytest.LogCaptureFixture, data: bytes, reason: str
) -> None:
    other = running.connect()
    bad = running.connect()
    with caplog.at_level(logging.WARNING):
        bad.send_bytes(data)

    lines = [record.getMessage() for record in caplog.records]
    assert bad.is_closed
    assert len(lines) == 1
    assert "10.0.0.7:5000" in lines[0]
    assert reason in lines[0]
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None


def count_responses(client: Client) -> int:
    count = 0
    while client.take_frame() is not None:
        count += 1
    return count


def test_pipelined_requests_are_served_in_slices_between_other_clients(running: RunningNode) -> None:
    greedy, other = running.connect(), running.connect()
    one = greedy.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    greedy.send_bytes(one * 250)

    assert not greedy.peer.is_read_from, "received frames are served first"
    assert count_responses(greedy) == 32
    for turn in range(2, 8):
        other.send(MetadataRequest(topics=[]), 9)
        assert other.take_frame() is not None, "served at once"
        running.clock.advance(1)
        running.node.tick()
        assert count_responses(greedy) == 32, f"slice {turn}"
    running.run(1)
    assert count_responses(greedy) == 250 - 7 * 32
    assert greedy.peer.is_read_from


def test_slice_is_run_however_long_other_parts_of_the_node_took(running: RunningNode) -> None:
    greedy = running.connect()
    greedy.send_bytes(greedy.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3) * 300)
    assert count_responses(greedy) == 32
    began_ms = running.clock.monotonic_ms()
    running.clock.advance(5)
    running.node.connections.tick(began_ms)

    assert count_responses(greedy) == 32


def test_slices_run_within_a_millisecond(running: RunningNode) -> None:
    """Pending slices do not wait for the clock."""
    greedy = running.connect()
    greedy.send_bytes(greedy.frame(MetadataRequest(topics=[]), 9) * 100)
    running.node.tick()
    assert count_responses(greedy) == 64

    assert running.node.next_deadline_ms() <= running.clock.monotonic_ms()
    assert running.node.tick()
    assert count_responses(greedy) == 32
    assert running.node.tick()
    assert count_responses(greedy) == 4
    assert not running.node.tick()
    assert running.node.next_deadline_ms() > running.clock.monotonic_ms()


def test_pipelined_requests_wait_while_the_peer_reads_no_responses(running: RunningNode) -> None:
    greedy = running.connect()
    greedy.peer.takes_bytes = False
    running.network.queued_size_bytes_max = 1
    one = greedy.frame(MetadataRequest(topics=[]), 9)
    greedy.send_bytes(one * 300)
    running.run(100)
    assert not greedy.peer.is_read_from
    greedy.peer.takes_bytes = True
    running.network.queued_size_bytes_max = 1 << 20
    running.network.take(greedy.peer)
    running.node.drained(greedy.peer.connection)
    running.run(100)

    assert count_responses(greedy) == 300
    assert greedy.peer.is_read_from


def test_closed_connection_gets_no_further_slice(running: RunningNode) -> None:
    greedy = running.connect()
    greedy.send_bytes(greedy.frame(MetadataRequest(topics=[]), 9) * 1_000)
    before = sum(route.requests for route in running.node.connections.routes)
    running.node.closed(greedy.peer.connection, "gone")
    running.run(100)

    assert sum(route.requests for route in running.node.connections.routes) == before


def test_queued_requests_are_served_after_their_sender_hung_up(running: RunningNode) -> None:
    """A producer with acks=0 sends and hangs up; it would not retry."""
    client = running.connect()
    create_topic(client, "t")
    data = PartitionProduceData(index=0, records=batch_of(client, [b"x"]))
    request = ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    client.send_bytes(client.frame(request, 9) * 1_000)
    assert not client.peer.is_read_from

    assert running.node.serves_rest(client.peer.connection)
    running.run(320)
    assert fetch(running.connect(), "t", 0).high_watermark == 1_000


def test_requests_behind_pending_or_unread_responses_are_dropped_after_hang_up(
    running: RunningNode,
) -> None:
    patient, greedy, idle = running.connect(), running.connect(), running.connect()
    create_topic(idle, "t")
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 10_000, 1
    patient.send(request, 12)
    greedy.peer.takes_bytes = False
    running.network.queued_size_bytes_max = 1
    greedy.send_bytes(greedy.frame(MetadataRequest(topics=[]), 9) * 300)

    assert [running.node.serves_rest(it.peer.connection) for it in (patient, greedy, idle)] == [False] * 3


def test_unknown_version_of_api_versions_gets_response_in_version_zero(running: RunningNode) -> None:
    client = running.connect()
    client.send_bytes(framed(header(18, 99) + b"whatever"))

    frame = client.take_frame()

    assert frame is not None
    response = ApiVersionsResponse.decode(frame, 0, 4)
    assert ErrorCode(response.error_code) is ErrorCode.UNSUPPORTED_VERSION
    assert [(row.api_key, row.max_version) for row in response.api_keys] == [(18, 4)]


def test_bytes_after_a_request_are_ignored(running: RunningNode) -> None:
    client = running.connect()
    client.send_bytes(framed(header(3, 1) + b"\x00\x00\x00\x00!"))

    frame = client.take_frame()

    assert frame is not None
    assert MetadataResponse.decode(frame, 1, 4).topics == []


def test_unknown_tags_in_the_request_header_are_skipped(running: RunningNode) -> None:
    client = running.connect()
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1").encode(3)
    client.send_bytes(framed(struct.pack(">hhih", 18, 3, 7, -1) + b"\x02\x05\x01x\x63\x02yz" + request))

    frame = client.take_frame()

    assert frame is not None
    assert ApiVersionsResponse.decode(frame, 3, 4).error_code == ErrorCode.NONE


def accept(running: RunningNode, connection: ConnectionId, host: str, listener: str = "PLAINTEXT") -> bool:
    return running.node.accepted(
        connection, listener=listener, peer=Endpoint(host, 1), local_address=Endpoint("localhost", 9092)
    )


def test_connections_are_limited_in_total_and_per_address(world: World) -> None:
    running = world.start_node(max_connections="3", max_connections_per_ip="2")

    assert [accept(running, 101, "10.0.0.1"), accept(running, 102, "10.0.0.1")] == [True, True]
    assert not accept(running, 103, "10.0.0.1"), "the third from one address"
    assert accept(running, 104, "10.0.0.2")
    assert not accept(running, 105, "10.0.0.3"), "the fourth in all"
    running.node.closed(101, "gone")
    assert accept(running, 106, "10.0.0.1")


def test_controller_listener_accepts_beyond_max_connections(world: World) -> None:
    running = world.start_node(max_connections="1")
    accept(running, 101, "10.0.0.1")
    assert not accept(running, 102, "10.0.0.2")

    assert accept(running, 103, "10.0.0.3", "CONTROLLER")


def test_idle_connection_is_closed_and_active_one_is_not(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="30000")
    silent, busy = running.connect(), running.connect()
    for _ in range(5):
        running.run(10_000)
        busy.ask(MetadataRequest(topics=[]), MetadataResponse, 9)

    assert silent.is_closed
    assert not busy.is_closed


def test_no_connection_is_idle_without_a_limit(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="-1")
    client = running.connect()
    running.run(30_000)

    assert not client.is_closed


def test_wait_for_a_response_does_not_count_as_idle(world: World) -> None:
    running = world.start_node(connections_max_idle_ms="30000")
    client = running.connect()
    create_topic(client, "t")
    request = fetch_request("t", 0)
    request.max_wait_ms, request.min_bytes = 40_000, 1
    client.send(request, 12)
    running.run(50_000)
    assert client.take_frame() is not None
    assert not client.is_closed
    running.run(40_000)

    assert client.is_closed


def test_peer_that_reads_no_responses_is_not_served_further(running: RunningNode) -> None:
    client = running.connect()
    client.peer.takes_bytes = False
    running.network.queued_size_bytes_max = 10
    client.send_bytes(client.frame(MetadataRequest(topics=[]), 9) * 2)

    queued = len(client.peer.queued)
    running.network.take(client.peer)
    running.node.drained(client.peer.connection)

    assert len(client.peer.queued) == queued, "the second request was served before the first response was read"


def test_changed_limit_applies_at_once(running: RunningNode) -> None:
    client = running.connect()
    limit = AlterableConfig(name="max.connections.per.ip", value="1")
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[limit])

    response = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse, 1)

    assert response.responses[0].error_code == ErrorCode.NONE, response
    assert accept(running, 101, "10.0.0.1")
    assert not accept(running, 102, "10.0.0.1")


@pytest.mark.parametrize(("count", "is_served"), [(1_000, True), (1_001, False)])
def test_request_with_too_many_entries_closes_its_connection_and_no_other(
    world: World, caplog: pytest.LogCaptureFixture, count: int, is_served: bool
) -> None:
    running = world.start_node(ottla_request_entries_max="1000")
    other, greedy = running.connect(), running.connect()
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")] * count)

    with caplog.at_level(logging.WARNING):
        greedy.send(request, 1)

    lines = [record.getMessage() for record in caplog.records]
    assert greedy.is_closed is not is_served
    assert lines == [] if is_served else "topics has 1001 entries" in lines[0]
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None


def test_response_that_cannot_be_encoded_logs_one_bounded_line_and_closes(
    running: RunningNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, bad = running.connect(), running.connect()
    served = find(ApiKey.DESCRIBE_CLUSTER, 0)
    assert served is not None
    response = DescribeClusterResponse(error_message="\n" * 100_000)
    monkeypatch.setitem(SERVED, ApiKey.DESCRIBE_CLUSTER, replace(served, handler=lambda context, request: response))
    with caplog.at_level(logging.WARNING):
        bad.send(DescribeClusterRequest(), 0)

    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert bad.is_closed
    assert [record.exc_info for record in errors] == [None]
    assert len(errors[0].getMessage()) < 300
    assert "the response to DescribeCluster v0 cannot be encoded: a string of 100000 bytes" in errors[0].getMessage()
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None


@pytest.mark.parametrize(
    ("request_", "response_type", "version"),
    [
        pytest.param(
            FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(2_000)]),
            FindCoordinatorResponse,
            4,
            id="message",
        ),
        pytest.param(offset_fetch_request(8), OffsetFetchResponse, 8, id="delayed-message"),
        pytest.param(offset_fetch_request(7), OffsetFetchResponse, 7, id="delayed-steps"),
    ],
)
def test_large_requests_run_one_at_a_time_from_decoding_to_the_response(
    running: RunningNode, request_: Message, response_type: type[Message], version: int
) -> None:
    coordinator = FindCoordinatorRequest(key="g")
    running.run_until(lambda: not running.connect().ask(coordinator, FindCoordinatorResponse, 3).error_code)
    running.run(1_000)  # until the coordinator has loaded the group
    connections = running.node.connections
    connections.steps.steps_max = lambda: 1
    clients = [running.connect() for _ in range(3)]
    for client in clients:
        client.send(request_, version)
    other = running.connect()
    assert other.ask(MetadataRequest(topics=[]), MetadataResponse, 9).cluster_id is not None, "served in between"
    assert len(connections.large_requests) == 2

    served = []
    for _ in range(100_000):
        running.node.tick()
        served += [client for client in clients if client.peer.received and client not in served]
        if not connections.steps:
            break

    assert served == clients
    assert connections.large_requests.waits == 2, "the response is encoded in the slot of its request"
    for client in clients:
        assert len(client.peer.received) > 2_000 * 10, "the response has each entry"
        assert isinstance(client.response_to(request_, version), response_type)


def test_registration_of_thousands_of_entries_is_rejected_before_it_is_decoded(running: RunningNode) -> None:
    client = running.connect("CONTROLLER")
    listeners = [Listener(name=f"L{number}", host="h", port=1) for number in range(ENTRIES_IN_ONE_GO + 1)]

    response = client.ask(BrokerRegistrationRequest(broker_id=7, listeners=listeners), BrokerRegistrationResponse, 4)

    assert (response.error_code, client.is_closed) == (ErrorCode.INVALID_REQUEST, False)
    assert 7 not in running.node.metadata.image.cluster.brokers
