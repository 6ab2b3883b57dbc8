"""The way to the active controller: next door or over the network, to the next leader when one is lost."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.membership.controller_channel import NodeToControllerChannel, Origin, is_not_controller
from ottla.peers.channel import PeerAnswer, PeerFailure
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


class ControllerNextDoor:
    """Active when the test says so; answers what the test says."""

    def __init__(self) -> None:
        self.is_active = False
        self.asked: list[Message] = []
        self.answers: list[Delayed[Message | KafkaError]] = []

    def handle(self, request: Message, _: object = None) -> Delayed[Message | KafkaError]:
        if not self.is_active:
            return Delayed.of(KafkaError(ErrorCode.NOT_CONTROLLER))
        self.asked.append(request)
        self.answers.append(Delayed())
        return self.answers[-1]


class Asking:
    """A channel with the quorum, the peers and time in the test's hand."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.controller = ControllerNextDoor()
        self.leader = LeaderAndEpoch(None, 0)
        self.sent: list[tuple[Endpoint, str, Message]] = []
        self.answers: list[Delayed[PeerAnswer]] = []
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
        self, endpoint: Endpoint, listener: str, request: Message, *, timeout_ms: int, lane: str = ""
    ) -> Delayed[PeerAnswer]:
        assert listener == "CONTROLLER"
        self.sent.append((endpoint, lane, request))
        self.answers.append(Delayed())
        return self.answers[-1]

    def probe(self, endpoint: Endpoint, listener: str, *, timeout_ms: int) -> Delayed[PeerFailure | None]:
        raise AssertionError("nobody is probed")

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
def asking() -> Asking:
    return Asking()


def test_a_request_waits_for_a_leader_and_goes_to_it_at_once(asking: Asking) -> None:
    answer = asking.channel.send(HEARTBEAT)
    asking.pass_time(1_000)
    assert asking.sent == []
    asking.elect(2)

    assert asking.sent == [(endpoint_of(2), "heartbeat", HEARTBEAT)]
    asking.answers[0].complete(BrokerHeartbeatResponse(is_fenced=False))
    assert answer.value == BrokerHeartbeatResponse(is_fenced=False)
    assert asking.channel.next_deadline_ms() is None


def test_without_a_leader_nothing_is_due_before_the_time_is_up(asking: Asking) -> None:
    """Otherwise a crowd of clients that want something of the controller would cost the node all of its time."""
    first = asking.channel.send(CreateTopicsRequest(timeout_ms=5_000))
    second = asking.channel.send(CreateTopicsRequest(timeout_ms=4_000))
    started_ms = asking.clock.monotonic_ms()
    asking.pass_time(0)

    assert asking.channel.next_deadline_ms() == started_ms + 4_000
    asking.clock.advance(3_999)
    assert asking.channel.tick(asking.clock.monotonic_ms()) == started_ms + 4_000
    asking.pass_time(1)
    assert second.is_complete
    assert not first.is_complete
    assert asking.channel.next_deadline_ms() == started_ms + 5_000


def test_a_crowd_that_waits_is_looked_through_now_and_then(asking: Asking) -> None:
    answers = []
    for _ in range(1_000):
        answers.append(asking.channel.send(CreateTopicsRequest(timeout_ms=5_000)))
        asking.pass_time(1)
    looked_through = set()
    while not answers[-1].is_complete:
        asking.pass_time(1)
        looked_through.add(sum(answer.is_complete for answer in answers))

    assert 100 < len(looked_through) < 500, "each has its own deadline, and not each is a look at all"
    assert asking.clock.monotonic_ms() <= 6_010
    assert asking.channel.next_deadline_ms() is None


def test_a_crowd_that_waits_goes_to_a_new_leader_at_once(asking: Asking) -> None:
    for _ in range(1_000):
        asking.channel.send(CreateTopicsRequest(timeout_ms=5_000))
    asking.elect(2)

    assert len(asking.sent) == 1_000


def test_the_controller_next_door_is_asked_without_a_network(asking: Asking) -> None:
    answer = asking.channel.send(CREATE)
    asking.elect(1)
    asking.controller.answers[0].complete(CreateTopicsResponse())

    assert asking.sent == []
    assert answer.value == CreateTopicsResponse()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PeerFailure.REFUSED, id="refused"),
        pytest.param(PeerFailure.DISCONNECTED, id="disconnected"),
        pytest.param(PeerFailure.TIMED_OUT, id="timed-out"),
        pytest.param(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER), id="not-controller"),
    ],
)
def test_what_is_no_answer_is_asked_again_after_a_rest(asking: Asking, answer: PeerAnswer) -> None:
    asking.elect(2)
    asking.channel.send(HEARTBEAT)
    asking.answers[0].complete(answer)
    asking.pass_time(49)
    assert len(asking.sent) == 1
    asking.pass_time(1)

    assert len(asking.sent) == 2


def test_a_new_leader_is_asked_at_once_and_the_old_ones_answer_is_ignored(asking: Asking) -> None:
    asking.elect(2)
    answer = asking.channel.send(HEARTBEAT)
    asking.elect(3)
    asking.answers[0].complete(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    asking.answers[1].complete(BrokerHeartbeatResponse())

    assert [endpoint for endpoint, _, _ in asking.sent] == [endpoint_of(2), endpoint_of(3)]
    assert answer.value == BrokerHeartbeatResponse()


def test_a_controller_that_resigns_before_it_commits_is_no_answer(asking: Asking) -> None:
    asking.elect(1)
    answer = asking.channel.send(CREATE)
    asking.elect(2)
    asking.controller.answers[0].complete(KafkaError(ErrorCode.NOT_CONTROLLER))

    assert not answer.is_complete
    assert [endpoint for endpoint, _, _ in asking.sent] == [endpoint_of(2)]


@pytest.mark.parametrize(
    ("request_", "origin", "timeout_ms", "error"),
    [
        pytest.param(CREATE, ORIGIN, 5_000, ErrorCode.REQUEST_TIMED_OUT, id="a-clients-own-timeout"),
        pytest.param(CREATE, None, 5_000, ErrorCode.NOT_CONTROLLER, id="a-nodes-request"),
        pytest.param(HEARTBEAT, None, 9_000, ErrorCode.NOT_CONTROLLER, id="a-heartbeat-within-its-session"),
    ],
)
def test_without_a_controller_there_is_an_error_when_time_is_up(
    asking: Asking, request_: Message, origin: Origin | None, timeout_ms: int, error: ErrorCode
) -> None:
    answer = asking.channel.send(request_) if origin is None else asking.channel.forward(request_, origin)
    asking.pass_time(timeout_ms - 1)
    assert not answer.is_complete
    asking.pass_time(1)

    value: Any = answer.value
    code = value.topics[0].error_code if isinstance(value, CreateTopicsResponse) else value.error_code
    assert code == error
    assert asking.channel.next_deadline_ms() is None


def test_a_clients_request_travels_in_an_envelope_with_who_asked(asking: Asking) -> None:
    asking.elect(2)
    answer = asking.channel.forward(CREATE, ORIGIN)
    _, lane, envelope = asking.sent[0]
    assert isinstance(envelope, EnvelopeRequest)
    header, position = RequestHeader.decode_from(envelope.request_data, 2)
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name="t")])
    data = ResponseHeader(correlation_id=5).encode(1) + response.encode(7)
    asking.answers[0].complete(EnvelopeResponse(response_data=data))

    assert lane == "forwarding"
    assert (header.request_api_key, header.request_api_version, header.client_id) == (19, 7, "admin")
    assert CreateTopicsRequest.decode(envelope.request_data, 7, position) == CREATE
    assert b"ann" in (envelope.request_principal or b"")
    assert envelope.client_host_address == bytes([10, 0, 0, 9])
    assert answer.value == response


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        pytest.param(ErrorCode.UNSUPPORTED_VERSION, ErrorCode.UNSUPPORTED_VERSION, id="a-version-it-does-not-speak"),
        pytest.param(ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR, id="anything-else-is-ours"),
    ],
)
def test_an_envelope_that_is_refused_fails_the_request(asking: Asking, refusal: ErrorCode, told: ErrorCode) -> None:
    asking.elect(2)
    answer = asking.channel.forward(CREATE, ORIGIN)
    asking.answers[0].complete(EnvelopeResponse(error_code=refusal))

    assert isinstance(answer.value, CreateTopicsResponse)
    assert answer.value.topics[0].error_code == told


def test_an_envelope_to_a_former_controller_is_sent_again(asking: Asking) -> None:
    asking.elect(2)
    answer = asking.channel.forward(CREATE, ORIGIN)
    asking.answers[0].complete(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
    asking.pass_time(50)

    assert len(asking.sent) == 2
    assert not answer.is_complete


def test_a_standby_controller_that_is_asked_directly_says_so(asking: Asking) -> None:
    asking.elect(2)
    answer = asking.channel.decide_here(CREATE)

    assert is_not_controller(answer.value)
    assert asking.sent == []


def test_somebody_else_may_answer_where_the_active_controller_is(asking: Asking) -> None:
    asking.elect(1)

    def here(_: Message) -> Delayed[Message]:
        return Delayed.of(CreateTopicsResponse(throttle_time_ms=3))

    answer = asking.channel.forward(CREATE, ORIGIN, here)

    assert answer.value == CreateTopicsResponse(throttle_time_ms=3)
    assert asking.controller.asked == []
