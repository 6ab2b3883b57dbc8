"""The high watermark: what a majority has on disk, from the leader's own epoch on, and never backwards."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.raft.leader import LeaderState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import ZERO_UUID

EPOCH_START = 10


def leader(voter_count: int) -> LeaderState:
    voters = VoterSet.of(Voter(number, ZERO_UUID, {}) for number in range(1, voter_count + 1))
    return LeaderState(5, ReplicaKey(1, ZERO_UUID), voters, frozenset({1}), EPOCH_START)


def test_it_is_unknown_until_the_epoch_s_first_record_is_committed() -> None:
    state = leader(1)

    assert not state.on_synced(1, EPOCH_START)
    assert state.high_watermark is None
    assert state.on_synced(1, EPOCH_START + 1)
    assert state.high_watermark == EPOCH_START + 1


def test_two_of_three_are_a_majority() -> None:
    state = leader(3)

    assert not state.on_synced(1, 20)
    assert state.on_synced(3, 15)
    assert state.high_watermark == 15


def test_two_of_four_are_not() -> None:
    state = leader(4)
    state.on_synced(1, 20)

    assert not state.on_synced(2, 20)
    assert state.on_synced(3, 12)
    assert state.high_watermark == 12


def test_an_observer_does_not_count() -> None:
    state = leader(2)
    state.on_synced(1, 20)

    assert not state.on_synced(9, 20)
    assert state.high_watermark is None


@given(
    voter_count=st.integers(1, 5),
    syncs=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=40),
)
def test_it_never_goes_back_and_always_has_a_majority(voter_count: int, syncs: list[tuple[int, int]]) -> None:
    state = leader(voter_count)
    synced = dict.fromkeys(range(1, voter_count + 1), 0)
    before = 0
    for voter, offset in syncs:
        advanced = state.on_synced(voter, offset)
        if voter in synced:
            synced[voter] = max(synced[voter], offset)
        now = state.high_watermark or 0

        assert now >= before
        assert advanced == (now > before)
        if now:
            assert 2 * sum(reached >= now for reached in synced.values()) > voter_count
        before = now
