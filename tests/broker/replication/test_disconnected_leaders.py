"""Who is told of a leader that this node has just lost waits for its successor, a second at most."""

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

ANSWER = MetadataResponse()


class Losses:
    """Stands for the fetchers."""

    def __init__(self) -> None:
        self.since_ms: dict[int, int] = {}

    def lost_since_ms(self) -> dict[int, int]:
        return self.since_ms


class Room:
    """A waiting room of a node that follows brokers 1 and 2."""

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
def room() -> Room:
    return Room()


def test_an_answer_that_concerns_nobody_who_is_lost_is_given_at_once(room: Room) -> None:
    assert room.leaders.answer_without(lambda _: True, lambda: ANSWER).is_complete
    room.lose(1)

    assert room.leaders.now() == {1}
    assert room.leaders.answer_without(lambda lost: 2 in lost, lambda: ANSWER).is_complete


def fence(room: Room) -> None:
    room.register(1, is_fenced=True)


def hear_again(room: Room) -> None:
    room.losses.since_ms.clear()


@pytest.mark.parametrize("happens", [fence, hear_again])
def test_an_answer_waits_until_it_is_known_what_became_of_the_leader(
    room: Room, happens: Callable[[Room], None]
) -> None:
    room.lose(1)
    answer = room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER)
    room.run(WAIT_MS_MAX - 1)
    before = answer.is_complete
    happens(room)
    room.leaders.look_again()

    assert (before, answer.is_complete) == (False, True)


def test_an_answer_waits_until_the_lost_leader_leads_nothing_of_it(room: Room) -> None:
    room.lose(1)
    leads = [1]
    answer = room.leaders.answer_without(lambda lost: leads[0] in lost, lambda: ANSWER)
    leads[0] = 2
    room.leaders.look_again()

    assert answer.is_complete


def test_an_answer_waits_for_a_second_at_most_and_later_ones_not_at_all(room: Room) -> None:
    room.lose(1)
    room.run(600)
    answer = room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER)
    room.run(399)
    before = answer.is_complete
    room.run(1)

    assert (before, answer.is_complete) == (False, True)
    assert room.leaders.now() == set()
    assert room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER).is_complete


@pytest.mark.parametrize("lost_for_ms", [0, 600])
def test_the_node_wakes_up_when_time_is_over(room: Room, lost_for_ms: int) -> None:
    assert room.leaders.next_deadline_ms() is None
    room.lose(1)
    room.run(lost_for_ms)
    answer = room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER)
    deadline_ms = room.leaders.next_deadline_ms()
    assert deadline_ms == room.clock.monotonic_ms() + WAIT_MS_MAX - lost_for_ms
    room.run(WAIT_MS_MAX - lost_for_ms)

    assert answer.is_complete
    assert room.leaders.next_deadline_ms() is None


def test_a_leader_is_lost_from_the_break_until_it_answers(trio: Any) -> None:
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


def test_a_broker_that_ends_a_fetch_is_suspected_for_a_tenth_of_a_second(room: Room) -> None:
    room.leaders.suspect(1)
    answer = room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER)
    room.run(SUSPICION_MS - 1)
    before = answer.is_complete
    assert room.leaders.next_deadline_ms() == room.clock.monotonic_ms() + 1
    room.run(1)

    assert (before, answer.is_complete) == (False, True)


def test_a_suspicion_that_proves_right_is_a_loss(room: Room) -> None:
    room.leaders.suspect(1)
    answer = room.leaders.answer_without(lambda lost: 1 in lost, lambda: ANSWER)
    room.run(50)
    room.lose(1)
    room.run(SUSPICION_MS)

    assert not answer.is_complete


@pytest.mark.parametrize(
    ("later_ms", "is_suspected"), [pytest.param(999, False, id="not-yet"), pytest.param(1_000, True, id="again")]
)
def test_who_ends_fetches_again_and_again_is_suspected_once_a_second(
    room: Room, later_ms: int, is_suspected: bool
) -> None:
    room.leaders.suspect(1)
    room.run(later_ms)
    room.leaders.suspect(1)

    assert (1 in room.leaders.now()) is is_suspected


def test_a_broker_that_is_fenced_is_not_suspected(room: Room) -> None:
    room.leaders.suspect(1)
    fence(room)

    assert room.leaders.now() == set()
