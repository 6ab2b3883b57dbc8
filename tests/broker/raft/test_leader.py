"""The leader: the high watermark is what a majority has on disk; a leader without a majority resigns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.raft.leader import OBSERVER_SESSION_TIMEOUT_MS, LeaderState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import Voter, VoterSet
from ottla.types import ZERO_UUID, Uuid

EPOCH_START = 10
LOG_END = 100
DIRECTORY = Uuid(b"d" * 16)


def voters(count: int) -> VoterSet:
    return VoterSet.of(Voter(number, ZERO_UUID, {}) for number in range(1, count + 1))


def leader(voter_count: int) -> LeaderState:
    return LeaderState(5, ReplicaKey(1, DIRECTORY), voters(voter_count), (1,), EPOCH_START)


def fetch(state: LeaderState, node_id: int, offset: int, now_ms: int = 0) -> bool:
    return state.on_fetch(ReplicaKey(node_id, DIRECTORY), offset, LOG_END, now_ms)


def test_high_watermark_is_unknown_until_the_epoch_s_first_record_is_committed() -> None:
    state = leader(1)

    assert not state.on_synced(EPOCH_START)
    assert state.high_watermark is None
    assert state.on_synced(EPOCH_START + 1)
    assert state.high_watermark == EPOCH_START + 1


def test_two_of_three_are_a_majority() -> None:
    state = leader(3)

    assert not state.on_synced(20)
    assert fetch(state, 3, 15)
    assert state.high_watermark == 15


def test_two_of_four_are_no_majority() -> None:
    state = leader(4)
    state.on_synced(20)

    assert not fetch(state, 2, 20)
    assert fetch(state, 3, 12)
    assert state.high_watermark == 12


def test_observer_does_not_count_for_the_high_watermark() -> None:
    state = leader(2)
    state.on_synced(20)

    assert not fetch(state, 9, 20)
    assert state.high_watermark is None


def test_voter_counts_by_its_directory_id_if_the_set_has_them() -> None:
    state = leader(2)
    state.voters = VoterSet.of([Voter(1, DIRECTORY, {}), Voter(2, Uuid(b"e" * 16), {})])
    state.on_synced(20)

    assert not fetch(state, 2, 20)
    assert state.on_fetch(ReplicaKey(2, Uuid(b"e" * 16)), 20, LOG_END, 0)


def test_removed_leader_does_not_count_itself_for_the_high_watermark() -> None:
    state = leader(3)
    state.voters = state.voters.without_voter(1)
    state.on_synced(20)

    assert not fetch(state, 2, 20)
    assert fetch(state, 3, 18)
    assert state.high_watermark == 18


def test_voter_change_may_raise_but_never_lowers_the_high_watermark() -> None:
    state = leader(3)
    state.on_synced(20)

    assert state.use_voters(voters(1), 0)
    assert state.high_watermark == 20
    assert not state.use_voters(voters(5), 0)
    assert state.high_watermark == 20


@given(
    voter_count=st.integers(1, 5),
    syncs=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 100)), max_size=40),
)
def test_high_watermark_never_goes_back_and_always_has_a_majority(
    voter_count: int, syncs: list[tuple[int, int]]
) -> None:
    state = leader(voter_count)
    reached = dict.fromkeys(range(1, voter_count + 1), 0)
    highest = dict(reached)
    before = 0
    for voter, offset in syncs:
        advanced = state.on_synced(offset) if voter == 1 else fetch(state, voter, offset)
        if voter in reached:
            reached[voter] = max(reached[voter], offset) if voter == 1 else offset
            highest[voter] = max(highest[voter], offset)
        now = state.high_watermark or 0

        assert now >= before
        assert advanced == (now > before)
        if now:
            assert 2 * sum(each >= now for each in highest.values()) > voter_count
        before = now


# --- check quorum


def test_only_voter_has_no_check_quorum_deadline() -> None:
    assert leader(1).check_quorum_due_ms is None


@pytest.mark.parametrize(("fetching", "check_quorum_due_ms"), [((2,), 3_000), ((2, 2), 3_000), ((2, 3), 3_500)])
def test_fetches_of_two_others_keep_a_leader_of_five(fetching: tuple[int, ...], check_quorum_due_ms: int) -> None:
    state = leader(5)

    for voter in fetching:
        fetch(state, voter, 0, now_ms=500)

    assert state.check_quorum_due_ms == check_quorum_due_ms


def test_first_added_voter_gets_the_whole_check_quorum_timeout() -> None:
    state = leader(1)

    state.use_voters(voters(2), 60_000)

    assert state.check_quorum_due_ms == 63_000
    state.use_voters(voters(3), 61_000)
    assert state.check_quorum_due_ms == 63_000


def test_fetch_with_the_leader_s_own_id_does_not_count_for_check_quorum() -> None:
    state = leader(2)

    state.note_alive(ReplicaKey(1, Uuid(b"x" * 16)), 500)

    assert state.check_quorum_due_ms == 3_000


def test_observer_fetches_do_not_count_for_check_quorum() -> None:
    state = leader(3)

    fetch(state, 9, 0, now_ms=500)

    assert state.check_quorum_due_ms == 3_000


# --- descriptions of replicas


def test_replica_is_caught_up_when_it_has_the_log_end_of_its_previous_fetch() -> None:
    state = leader(3)
    key = ReplicaKey(9, DIRECTORY)

    state.on_fetch(key, 5, 10, now_ms=100)
    assert state.progress[key].last_caught_up_ms is None
    state.on_fetch(key, 10, 20, now_ms=200)
    assert state.progress[key].last_caught_up_ms == 100
    state.on_fetch(key, 20, 20, now_ms=300)
    assert state.progress[key].last_caught_up_ms == 300


@pytest.mark.parametrize(("silent_ms", "described"), [(OBSERVER_SESSION_TIMEOUT_MS - 1, [9]), (300_000, [])])
def test_observer_without_fetches_is_removed(silent_ms: int, described: list[int]) -> None:
    state = leader(3)
    fetch(state, 9, 0)

    assert [key.node_id for key, _ in state.observers(silent_ms)] == described


def test_consumer_fetch_is_not_counted_as_a_replica() -> None:
    state = leader(1)

    assert not fetch(state, -1, 20)

    assert state.observers(0) == []


def test_successors_are_the_voters_with_the_longest_logs_first() -> None:
    state = leader(4)
    fetch(state, 2, 5)
    fetch(state, 4, 7)

    assert [key.node_id for key in state.voters_by_offset()] == [4, 2, 3]
