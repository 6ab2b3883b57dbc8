"""A simulated producer whose next sequence is rejected: excused only where the broker may have lost its state."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.errors import ErrorCode
from ottla.peers.channel import PeerResult
from ottla.simulator.clients.client_host import ClientHost, Target
from ottla.simulator.clients.producer import Producer
from ottla.simulator.invariants.ledger import InvariantViolation, Ledger, PartitionKey
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint, Uuid
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.wire.records import iterate_batches

KEY = PartitionKey("t", Uuid(bytes(16)), 0)
NODE = Endpoint("node1", 9092)


class Host:
    """One partition's leader, which responds when the test does."""

    def __init__(self) -> None:
        self.random = SeededRandom(1)
        self.cluster = SimpleNamespace(clock=SimulatedClock(), nodes={1: SimpleNamespace(host=NODE.host)})
        self.waiting: list[tuple[int, Callable[[PeerResult], None]]] = []
        self.producer_ids = 0
        self._due: list[Callable[[], object]] = []

    def partition_count(self, topic: str) -> int:
        return 1

    def target(self, topic: str, partition: int) -> Target:
        return Target(KEY, NODE)

    def any_node(self) -> Endpoint:
        return NODE

    def refresh(self) -> None:
        pass

    def after(self, delay_ms: int, action: Callable[[], object]) -> None:
        self._due.append(action)

    def do_due(self) -> None:
        self.cluster.clock.advance(1_000)
        due, self._due = self._due, []
        for action in due:
            action()

    def ask(self, endpoint: Endpoint, request: Any, purpose: str, on_response: Callable[[PeerResult], None]) -> None:
        if isinstance(request, InitProducerIdRequest):
            self.producer_ids += 1
            on_response(InitProducerIdResponse(producer_id=self.producer_ids, producer_epoch=0))
            return
        assert isinstance(request, ProduceRequest)
        records = request.topic_data[0].partition_data[0].records
        assert isinstance(records, bytes)
        (batch,) = iterate_batches(records)
        self.waiting.append((batch.base_sequence, on_response))

    def respond(self, code: ErrorCode, offset: int = -1) -> None:
        """Respond to the oldest request."""
        partition = PartitionProduceResponse(error_code=code, base_offset=offset)
        response = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])
        self.waiting.pop(0)[1](response)


class World:
    """An idempotent producer with two batches in flight, of which the first is acknowledged at offset 5."""

    def __init__(self, *, deleted_to: int = 0) -> None:
        topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})
        image = SimpleNamespace(topics=SimpleNamespace(by_id={KEY.topic_id: topic}))
        self.state_observer: Any = SimpleNamespace(
            ledger=Ledger(), image=image, is_deleted=lambda key: False, acknowledged=lambda *arguments: None
        )
        self.state_observer.ledger.partition(KEY).deleted_to = deleted_to
        self.host: Any = Host()
        host, state_observer = cast(ClientHost, self.host), cast(StateObserver, self.state_observer)
        self.producer = Producer(host, state_observer, "p", "t", acks=-1, is_idempotent=True, pace_ms=1)
        self.producer.send_to_all()
        self.host.do_due()
        self.producer.send_to_all()
        self.host.respond(ErrorCode.NONE, offset=5)


@pytest.mark.parametrize("deleted_to", [0, 5], ids=["nothing-deleted", "all-before-it"])
def test_rejected_sequence_is_a_violation_while_the_batch_before_it_is_there(deleted_to: int) -> None:
    world = World(deleted_to=deleted_to)

    with pytest.raises(InvariantViolation, match="IdempotentProducersNeverDuplicate: t-0 rejects sequence"):
        world.host.respond(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_producer_starts_again_with_another_id_when_the_batch_before_the_rejected_one_is_deleted() -> None:
    """Seed 853: a late batch, acknowledged before, was accepted as the first batch of an unknown producer."""
    world = World(deleted_to=6)
    world.host.respond(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    world.producer.send_to_all()
    world.host.do_due()
    world.host.do_due()

    assert [sequence for sequence, _ in world.host.waiting] == [0]
    assert world.host.producer_ids == 2


def test_deleted_batches_excuse_no_rejection_of_the_next_producer_id() -> None:
    world = World(deleted_to=6)
    world.host.respond(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    world.producer.send_to_all()
    world.host.do_due()
    world.host.do_due()

    with pytest.raises(InvariantViolation, match="rejects sequence 0"):
        world.host.respond(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
