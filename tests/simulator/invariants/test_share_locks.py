"""Locks of share groups: when a record must not be given to a second member, and when it may."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.ports import ConnectionId
from ottla.share_partitions.share_session_cache import ShareSessionCache, ShareSessionKey
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.share_locks import LOCK_DURATION_MS, ShareFetchSent, ShareLocks
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Endpoint, TopicIdPartition, Uuid

WHERE = TopicIdPartition(Uuid(b"t" * 16), 0)
NODE = Endpoint("node1", 9092)
FIRST, SECOND = ShareSessionKey("g", "first"), ShareSessionKey("g", "second")


class Leader:
    """A node's share sessions, and one share-partition, which `reload` replaces."""

    def __init__(self) -> None:
        self.sessions = ShareSessionCache(lambda: 10)
        self.reload()

    def reload(self) -> None:
        self._share_partition = object()

    def current(self, key: object) -> object:
        return self._share_partition


@pytest.fixture
def leader() -> Leader:
    leader = Leader()
    for number, member in enumerate((FIRST, SECOND)):
        leader.sessions.open(member, ConnectionId(number))
    return leader


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock()


@pytest.fixture
def locks(leader: Leader, clock: SimulatedClock) -> ShareLocks:
    place = SimpleNamespace(host=NODE.host, process=SimpleNamespace(services=SimpleNamespace(share_partitions=leader)))
    cluster: Any = SimpleNamespace(nodes={1: place}, clock=clock)
    return ShareLocks(cluster)


def send(locks: ShareLocks, member: ShareSessionKey) -> ShareFetchSent:
    return locks.on_sent(member, NODE, [WHERE])


def give(locks: ShareLocks, member: ShareSessionKey, *offsets: int) -> None:
    locks.on_given(send(locks, member), WHERE, offsets)


def test_record_that_another_member_holds_is_a_violation(locks: ShareLocks) -> None:
    give(locks, FIRST, 3, 4)
    give(locks, SECOND, 2, 5)

    with pytest.raises(InvariantViolation, match=r"AcquiredByOneMember: offset 4 .* second of g, but first holds it"):
        give(locks, SECOND, 4)


def test_member_that_is_given_a_record_last_holds_it(locks: ShareLocks, clock: SimulatedClock) -> None:
    give(locks, FIRST, 4)
    clock.advance(LOCK_DURATION_MS)
    give(locks, SECOND, 4)

    with pytest.raises(InvariantViolation, match="first of g, but second holds it"):
        give(locks, FIRST, 4)


def acknowledge(locks: ShareLocks, leader: Leader, clock: SimulatedClock) -> None:
    locks.on_acknowledgements_sent(FIRST, WHERE, [4])


def end_session(locks: ShareLocks, leader: Leader, clock: SimulatedClock) -> None:
    leader.sessions.close(FIRST)


def open_another_session(locks: ShareLocks, leader: Leader, clock: SimulatedClock) -> None:
    leader.sessions.close(FIRST)
    leader.sessions.open(FIRST, ConnectionId(7))


def let_the_lock_time_out(locks: ShareLocks, leader: Leader, clock: SimulatedClock) -> None:
    clock.advance(LOCK_DURATION_MS)


def read_the_share_state_again(locks: ShareLocks, leader: Leader, clock: SimulatedClock) -> None:
    leader.reload()


@pytest.mark.parametrize(
    "release", [acknowledge, end_session, open_another_session, let_the_lock_time_out, read_the_share_state_again]
)
def test_record_that_is_held_no_longer_may_be_given_again(
    release: Callable[..., None], locks: ShareLocks, leader: Leader, clock: SimulatedClock
) -> None:
    give(locks, FIRST, 4)
    release(locks, leader, clock)

    give(locks, SECOND, 4)

    with pytest.raises(InvariantViolation, match="second holds it"):
        give(locks, ShareSessionKey("g", "third"), 4)


def test_acknowledgement_of_another_member_releases_nothing(locks: ShareLocks) -> None:
    give(locks, FIRST, 4)
    locks.on_acknowledgements_sent(SECOND, WHERE, [4])

    with pytest.raises(InvariantViolation, match="first holds it"):
        give(locks, SECOND, 4)


def test_responses_that_were_under_way_at_once_are_not_compared(locks: ShareLocks, clock: SimulatedClock) -> None:
    sent = send(locks, SECOND)
    clock.advance(1)
    give(locks, FIRST, 4)

    locks.on_given(sent, WHERE, [4])

    with pytest.raises(InvariantViolation, match="second holds it"):
        give(locks, FIRST, 4)


def test_record_of_a_share_partition_that_was_replaced_under_way_is_not_held(locks: ShareLocks, leader: Leader) -> None:
    sent = send(locks, FIRST)
    leader.reload()
    locks.on_given(sent, WHERE, [4])

    give(locks, SECOND, 4)

    with pytest.raises(InvariantViolation, match="second holds it"):
        give(locks, FIRST, 4)
