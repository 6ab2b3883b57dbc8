"""Responses that name a leader that this node has just lost wait for its successor, a second at most."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from ottla.metadata.cluster import BrokerRegistration, ClusterImage
from ottla.replication.disconnected_leaders import SUSPICION_MS, WAIT_MS_MAX, DisconnectedLeaders
from ottla.replication.peer_brokers import Brokers
from ottla.replication.replica_fetcher_manager import ReplicaFetcherManager
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Uuid
from ottla.wire.messages.metadata import MetadataResponse

RESPONSE = MetadataResponse()


class Losses:
    """Replaces the fetchers."""

    def __init__(self) -> None:
        self.since_ms: dict[int, int] = {}

    def lost_since_ms(self) -> dict[int, int]:
        return self.since_ms


class WaitingResponses:
    """The waiting responses of a node that follows brokers 1 and 2."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.losses = Losses()
        self.brokers = Brokers()
        self.leaders = DisconnectedLeaders(
            clock=self.clock, fetchers=cast("ReplicaFetcherManager", self.losses), brokers=self.brokers
        )
        for broker_id in (1, 2):
            self.register(broker_id, is_fenced=False)

    def register(self, broker_id: int, *, is_fenced: bool) -> None:
        registration = BrokerRegistration(
            broker_id=broker_id,
            epoch=1,
            incarnation_id=Uuid(bytes(16)),
            listeners={},
            features={},
            rack=None,
            is_fenced=is_fenced,
            in_controlled_shutdown=False,
            directories=(),
        )
        self.brokers.image = ClusterImage({**self.brokers.image.brokers, broker_id: registration})

    def lose(self, broker_id: int) -> None:
        self.losses.since_ms[broker_id] = self.clock.monotonic_ms()

    def run(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.leaders.tick(self.clock.monotonic_ms())


@pytest.fixture
def waiting() -> WaitingResponses:
    return WaitingResponses()


def test_response_without_a_lost_leader_is_sent_at_once(waiting: WaitingResponses) -> None:
    assert waiting.leaders.respond_when_settled(lambda _: True, lambda: RESPONSE).is_complete
    waiting.lose(1)

    assert waiting.leaders.lost_leaders() == {1}
    assert waiting.leaders.respond_when_settled(lambda lost: 2 in lost, lambda: RESPONSE).is_complete


def fence(waiting: WaitingResponses) -> None:
    waiting.register(1, is_fenced=True)


def respond_again(waiting: WaitingResponses) -> None:
    waiting.losses.since_ms.clear()


@pytest.mark.parametrize("happens", [fence, respond_again])
def test_response_waits_until_the_lost_leader_is_fenced_or_back(
    waiting: WaitingResponses, happens: Callable[[WaitingResponses], None]
) -> None:
    waiting.lose(1)
    response = waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE)
    waiting.run(WAIT_MS_MAX - 1)
    before = response.is_complete
    happens(waiting)
    waiting.leaders.check_waiting()

    assert (before, response.is_complete) == (False, True)


def test_response_waits_until_it_names_no_lost_leader(waiting: WaitingResponses) -> None:
    waiting.lose(1)
    leads = [1]
    response = waiting.leaders.respond_when_settled(lambda lost: leads[0] in lost, lambda: RESPONSE)
    leads[0] = 2
    waiting.leaders.check_waiting()

    assert response.is_complete


def test_response_waits_for_a_second_at_most_and_later_ones_not_at_all(waiting: WaitingResponses) -> None:
    waiting.lose(1)
    waiting.run(600)
    response = waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE)
    waiting.run(399)
    before = response.is_complete
    waiting.run(1)

    assert (before, response.is_complete) == (False, True)
    assert waiting.leaders.lost_leaders() == set()
    assert waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE).is_complete


@pytest.mark.parametrize("lost_for_ms", [0, 600])
def test_deadline_is_that_of_the_waiting_response(waiting: WaitingResponses, lost_for_ms: int) -> None:
    assert waiting.leaders.next_deadline_ms() is None
    waiting.lose(1)
    waiting.run(lost_for_ms)
    response = waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE)
    deadline_ms = waiting.leaders.next_deadline_ms()
    assert deadline_ms == waiting.clock.monotonic_ms() + WAIT_MS_MAX - lost_for_ms
    waiting.run(WAIT_MS_MAX - lost_for_ms)

    assert response.is_complete
    assert waiting.leaders.next_deadline_ms() is None


def test_leader_is_lost_from_the_disconnect_until_it_responds(trio: Any) -> None:
    follower = trio[2].replicas
    leader = trio[1].node_id
    assert follower.fetchers.lost_since_ms() == {}
    trio.cut(1, 2)
    trio.run(1)
    since_ms = follower.fetchers.lost_since_ms()
    trio.run(300)
    later_ms = follower.fetchers.lost_since_ms()
    trio.heal()
    trio.run(2_000)

    assert list(since_ms) == [leader]
    assert later_ms == since_ms
    assert follower.fetchers.lost_since_ms() == {}


def test_suspicion_of_a_broker_ends_after_its_limit(waiting: WaitingResponses) -> None:
    waiting.leaders.suspect(1)
    response = waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE)
    waiting.run(SUSPICION_MS - 1)
    before = response.is_complete
    assert waiting.leaders.next_deadline_ms() == waiting.clock.monotonic_ms() + 1
    waiting.run(1)

    assert (before, response.is_complete) == (False, True)


def test_confirmed_suspicion_is_a_loss(waiting: WaitingResponses) -> None:
    waiting.leaders.suspect(1)
    response = waiting.leaders.respond_when_settled(lambda lost: 1 in lost, lambda: RESPONSE)
    waiting.run(50)
    waiting.lose(1)
    waiting.run(SUSPICION_MS)

    assert not response.is_complete


@pytest.mark.parametrize(
    ("later_ms", "is_suspected"), [pytest.param(999, False, id="not-yet"), pytest.param(1_000, True, id="again")]
)
def test_broker_that_repeatedly_ends_fetches_is_suspected_once_a_second(
    waiting: WaitingResponses, later_ms: int, is_suspected: bool
) -> None:
    waiting.leaders.suspect(1)
    waiting.run(later_ms)
    waiting.leaders.suspect(1)

    assert (1 in waiting.leaders.lost_leaders()) is is_suspected


def test_fenced_broker_is_not_suspected(waiting: WaitingResponses) -> None:
    waiting.leaders.suspect(1)
    fence(waiting)

    assert waiting.leaders.lost_leaders() == set()
