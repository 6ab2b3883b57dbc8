"""Proposals of in-sync sets are sent in requests of bounded size, each until the controller has responded to it."""

from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode
from ottla.purgatory import Delayed
from ottla.replication.isr import alter_partition_manager
from ottla.replication.isr.alter_partition_manager import RETRY_MS, AlterPartitionManager
from ottla.replication.isr.isr_change import IsrChange
from ottla.replication.peer_brokers import PeerBrokers
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Uuid
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

TOPIC = Uuid(b"t" * 16)


class Proposals:
    """A manager with its controller: requests that it has sent, and partitions whose proposals have a response."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self.requests: list[AlterPartitionRequest] = []
        self.unwanted: set[int] = set()
        self.responded: list[int] = []
        self._delayed: Delayed[Message] = Delayed()
        peers = PeerBrokers(
            channel=None,  # type: ignore[arg-type]
            endpoint_of=lambda _: None,
            send_to_controller=self._send,
            broker_epoch=lambda: 7,
        )
        self.manager = AlterPartitionManager(node_id=1, peer_brokers=peers, clock=clock, on_all_responses=lambda: None)

    def _send(self, request: Message) -> Delayed[Message]:
        assert isinstance(request, AlterPartitionRequest)
        self.requests.append(request)
        self._delayed = Delayed()
        return self._delayed

    def propose(self, *partitions: int) -> None:
        for partition in partitions:
            change = IsrChange(
                topic_id=TOPIC,
                partition=partition,
                leader_epoch=0,
                partition_epoch=0,
                isr=(1,),
                broker_epochs=(7,),
                maximal=(1, 2),
            )
            self.manager.propose(
                change,
                is_wanted=lambda partition=partition: partition not in self.unwanted,  # type: ignore[misc]
                on_response=lambda data: self.responded.append(data.partition_index),
            )

    def tick(self) -> list[int]:
        """Return the partitions of the request that is sent now."""
        before = len(self.requests)
        self.manager.tick(self.clock.monotonic_ms())
        return [each.partition_index for sent in self.requests[before:] for each in sent.topics[0].partitions]

    def respond(self, *partitions: int, error: ErrorCode = ErrorCode.NONE) -> None:
        data = [AlterPartitionResponsePartitionData(partition_index=each) for each in partitions]
        topics = [AlterPartitionResponseTopicData(topic_id=TOPIC, partitions=data)]
        self._delayed.complete(AlterPartitionResponse(error_code=error, topics=[] if error else topics))


@pytest.fixture
def proposals(monkeypatch: pytest.MonkeyPatch) -> Proposals:
    monkeypatch.setattr(alter_partition_manager, "SENT_MAX", 3)
    return Proposals(SimulatedClock())


def test_many_proposals_are_sent_one_request_after_the_other(proposals: Proposals) -> None:
    proposals.propose(*range(7))
    sent = [proposals.tick(), proposals.tick()]
    proposals.respond(0, 1, 2)
    sent.append(proposals.tick())
    proposals.respond(3, 4, 5)
    sent.append(proposals.tick())
    proposals.respond(6)

    assert sent == [[0, 1, 2], [], [3, 4, 5], [6]]
    assert proposals.responded == list(range(7))
    assert len(proposals.manager) == 0


def test_unwanted_proposals_take_no_place_in_a_request(proposals: Proposals) -> None:
    proposals.propose(*range(7))
    proposals.unwanted |= {0, 1, 4}

    assert proposals.tick() == [2, 3, 5]
    proposals.respond(2, 3, 5)
    assert proposals.tick() == [6]


@pytest.mark.parametrize(
    ("respond", "expected"),
    [
        pytest.param(lambda it: it.respond(1), [3, 0, 2], id="without-some-of-them"),
        pytest.param(lambda it: it.respond(error=ErrorCode.NOT_CONTROLLER), [0, 1, 2], id="with-an-error-for-all"),
    ],
)
def test_proposal_without_a_response_is_sent_again(
    proposals: Proposals, respond: Callable[[Proposals], None], expected: list[int]
) -> None:
    proposals.propose(*range(4))
    proposals.tick()

    respond(proposals)
    at_once = proposals.tick()
    proposals.clock.advance(RETRY_MS)

    assert at_once == []
    assert proposals.tick() == expected
