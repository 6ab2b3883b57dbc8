"""The channel to the active controller: in this process or over the network, across changes of the leader."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.membership.controller_channel import NodeToControllerChannel, Origin, is_not_controller
from ottla.peers.channel import PeerFailure, PeerResult
from ottla.purgatory import Delayed
from ottla.raft.records import LeaderAndEpoch
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Endpoint
from ottla.wire.codec import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.headers import RequestHeader, ResponseHeader

ORIGIN = Origin(api_version=7, correlation_id=5, client_id="admin", principal="User:ann", client_host="10.0.0.9")
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t")], timeout_ms=5_000)
HEARTBEAT = BrokerHeartbeatRequest(broker_id=4)


class ControllerInThisProcess:
    """Active when the test says so; responds with what the test provides."""

    def __init__(self) -> None:
        self.is_active = False
        self.handled: list[Message] = []
        self.responses: list[Delayed[Message | KafkaError]] = []

    def handle(
        self, request: Message, _: object = None, *, requester: str | None = None
    ) -> Delayed[Message | KafkaError]:
        if not self.is_active:
            return Delayed.of(KafkaError(ErrorCode.NOT_CONTROLLER))
        self.handled.append(request)
        self.responses.append(Delayed())
        return self.responses[-1]


class ChannelHarness:
    """A channel whose quorum, peers and time the test controls."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.controller = ControllerInThisProcess()
        self.leader = LeaderAndEpoch(None, 0)
        self.sent: list[tuple[Endpoint, str, Message]] = []
        self.responses: list[Delayed[PeerResult]] = []
        controller: Any = self.controller
        self.channel = NodeToControllerChannel(
            clock=self.clock,
            peers=self,
            node_id=1,
            controller=controller,
            leader=lambda: self.leader,
            leader_endpoint=lambda: None if self.leader.leader_id is None else endpoint_of(self.leader.leader_id),
            listener="CONTROLLER",
            request_timeout_ms=30_000,
            session_timeout_ms=9_000,
        )

    def send(
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, purpose: str = ""
    ) -> Delayed[PeerResult]:
        assert listener == "CONTROLLER"
        self.sent.append((endpoint, purpose, request))
        self.responses.append(Delayed())
        return self.responses[-1]

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise AssertionError("no node is probed")

    def elect(self, node_id: int | None) -> None:
        self.leader = LeaderAndEpoch(node_id, self.leader.epoch + 1)
        self.controller.is_active = node_id == 1
        self.pass_time(0)

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.channel.tick(self.clock.monotonic_ms())


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint(f"node{node_id}", 9093)


@pytest.fixture
def harness() -> ChannelHarness:
    return ChannelHarness()


def test_request_waits_for_a_leader_and_is_sent_to_it_at_once(harness: ChannelHarness) -> None:
    response = harness.channel.send(HEARTBEAT)
    harness.pass_time(1_000)
    assert harness.sent == []
    harness.elect(2)

    assert harness.sent == [(endpoint_of(2), "heartbeat", HEARTBEAT)]
    harness.responses[0].complete(BrokerHeartbeatResponse(is_fenced=False))
    assert response.value == BrokerHeartbeatResponse(is_fenced=False)
    assert harness.channel.next_deadline_ms() is None


def test_without_a_leader_nothing_is_due_before_the_timeout(harness: ChannelHarness) -> None:
    """Otherwise many clients with requests for the controller would use up the node's time."""
    first = harness.channel.send(CreateTopicsRequest(timeout_ms=5_000))
    second = harness.channel.send(CreateTopicsRequest(timeout_ms=4_000))
    started_ms = harness.clock.monotonic_ms()
    harness.pass_time(0)

    assert harness.channel.next_deadline_ms() == started_ms + 4_000
    harness.clock.advance(3_999)
    assert harness.channel.tick(harness.clock.monotonic_ms()) == started_ms + 4_000
    harness.pass_time(1)
    assert second.is_complete
    assert not first.is_complete
    assert harness.channel.next_deadline_ms() == started_ms + 5_000


def test_many_pending_requests_are_scanned_at_a_bounded_rate(harness: ChannelHarness) -> None:
    responses = []
    for _ in range(1_000):
        responses.append(harness.channel.send(CreateTopicsRequest(timeout_ms=5_000)))
        harness.pass_time(1)
    scans = set()
    while not responses[-1].is_complete:
        harness.pass_time(1)
        scans.add(sum(response.is_complete for response in responses))

    assert 100 < len(scans) < 500, "each has its own deadline, but not each causes a scan"
    assert harness.clock.monotonic_ms() <= 6_010
    assert harness.channel.next_deadline_ms() is None


def test_many_pending_requests_are_sent_to_a_new_leader_at_once(harness: ChannelHarness) -> None:
    for _ in range(1_000):
        harness.channel.send(CreateTopicsRequest(timeout_ms=5_000))
    harness.elect(2)

    assert len(harness.sent) == 1_000


def test_controller_in_the_same_process_is_called_without_a_connection(harness: ChannelHarness) -> None:
    response = harness.channel.send(CREATE)
    harness.elect(1)
    harness.controller.responses[0].complete(CreateTopicsResponse())

    assert harness.sent == []
    assert response.value == CreateTopicsResponse()


@pytest.mark.parametrize(
    "response",
    [
        pytest.param(PeerFailure.CONNECTION_REFUSED, id="refused"),
        pytest.param(PeerFailure.DISCONNECTED, id="disconnected"),
        pytest.param(PeerFailure.TIMED_OUT, id="timed-out"),
        pytest.param(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), id="not-controller"),
    ],
)
def test_failed_request_is_retried_after_the_backoff(harness: ChannelHarness, response: PeerResult) -> None:
    harness.elect(2)
    harness.channel.send(HEARTBEAT)
    harness.responses[0].complete(response)
    harness.pass_time(49)
    assert len(harness.sent) == 1
    harness.pass_time(1)

    assert len(harness.sent) == 2


def test_new_leader_is_sent_the_request_at_once_and_the_former_response_is_ignored(harness: ChannelHarness) -> None:
    harness.elect(2)
    response = harness.channel.send(HEARTBEAT)
    harness.elect(3)
    harness.responses[0].complete(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    harness.responses[1].complete(BrokerHeartbeatResponse())

    assert [endpoint for endpoint, _, _ in harness.sent] == [endpoint_of(2), endpoint_of(3)]
    assert response.value == BrokerHeartbeatResponse()


def test_request_is_retried_when_the_local_controller_resigns_before_the_commit(harness: ChannelHarness) -> None:
    harness.elect(1)
    response = harness.channel.send(CREATE)
    harness.elect(2)
    harness.controller.responses[0].complete(KafkaError(ErrorCode.NOT_CONTROLLER))

    assert not response.is_complete
    assert [endpoint for endpoint, _, _ in harness.sent] == [endpoint_of(2)]


@pytest.mark.parametrize(
    ("request_", "origin", "timeout_ms", "error"),
    [
        pytest.param(CREATE, ORIGIN, 5_000, ErrorCode.REQUEST_TIMED_OUT, id="a-clients-own-timeout"),
        pytest.param(CREATE, None, 5_000, ErrorCode.NOT_CONTROLLER, id="a-nodes-request"),
        pytest.param(HEARTBEAT, None, 9_000, ErrorCode.NOT_CONTROLLER, id="a-heartbeat-within-its-session"),
    ],
)
def test_request_without_a_controller_fails_after_its_timeout(
    harness: ChannelHarness, request_: Message, origin: Origin | None, timeout_ms: int, error: ErrorCode
) -> None:
    response = harness.channel.send(request_) if origin is None else harness.channel.forward(request_, origin)
    harness.pass_time(timeout_ms - 1)
    assert not response.is_complete
    harness.pass_time(1)

    value: Any = response.value
    code = value.topics[0].error_code if isinstance(value, CreateTopicsResponse) else value.error_code
    assert code == error
    assert harness.channel.next_deadline_ms() is None


def test_client_request_is_forwarded_in_an_envelope_with_its_principal(harness: ChannelHarness) -> None:
    harness.elect(2)
    forwarded = harness.channel.forward(CREATE, ORIGIN)
    _, connection, envelope = harness.sent[0]
    assert isinstance(envelope, EnvelopeRequest)
    header, position = RequestHeader.decode_from(envelope.request_data, 2)
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    data = ResponseHeader(correlation_id=5).encode(1) + response.encode(7)
    harness.responses[0].complete(EnvelopeResponse(response_data=data))

    assert connection == "forwarding"
    assert (header.request_api_key, header.request_api_version, header.client_id) == (19, 7, "admin")
    assert CreateTopicsRequest.decode(envelope.request_data, 7, position) == CREATE
    assert b"ann" in (envelope.request_principal or b"")
    assert envelope.client_host_address == bytes([10, 0, 0, 9])
    assert forwarded.value == response


@pytest.mark.parametrize(
    ("envelope_error", "reported"),
    [
        pytest.param(ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION, id="a-version-it-does-not-speak"),
        pytest.param(ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR, id="anything-else-is-ours"),
    ],
)
def test_rejected_envelope_fails_the_request(
    harness: ChannelHarness, envelope_error: ErrorCode, reported: ErrorCode
) -> None:
    harness.elect(2)
    response = harness.channel.forward(CREATE, ORIGIN)
    harness.responses[0].complete(EnvelopeResponse(error_code=envelope_error))

    assert isinstance(response.value, CreateTopicsResponse)
    assert response.value.topics[0].error_code == reported


def test_envelope_to_a_former_controller_is_retried(harness: ChannelHarness) -> None:
    harness.elect(2)
    response = harness.channel.forward(CREATE, ORIGIN)
    harness.responses[0].complete(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    harness.pass_time(50)

    assert len(harness.sent) == 2
    assert not response.is_complete


def test_standby_controller_returns_not_controller(harness: ChannelHarness) -> None:
    harness.elect(2)
    response = harness.channel.handle_locally(CREATE)

    assert is_not_controller(response.value)
    assert harness.sent == []


def test_local_handler_handles_the_request_if_the_controller_is_local(harness: ChannelHarness) -> None:
    harness.elect(1)

    def handle_locally_on_leader(_: Message) -> Delayed[Message]:
        return Delayed.of(CreateTopicsResponse(throttle_time_ms=3))

    response = harness.channel.forward(CREATE, ORIGIN, handle_locally_on_leader)

    assert response.value == CreateTopicsResponse(throttle_time_ms=3)
    assert harness.controller.handled == []
