"""The state after a start, the valid transitions, and that no epoch is led or voted in twice."""

from collections.abc import Callable

import pytest

from ottla.errors import StorageError
from ottla.raft.candidate import CandidateState
from ottla.raft.config import RaftConfig
from ottla.raft.follower import FollowerState
from ottla.raft.leader import LeaderState
from ottla.raft.prospective import ProspectiveState
from ottla.raft.quorum_state import QuorumState
from ottla.raft.quorum_state_file import ElectionState, QuorumStateFile
from ottla.raft.records import ReplicaKey
from ottla.raft.resigned import ResignedState
from ottla.raft.unattached import UnattachedState
from ottla.raft.voter_history import VoterHistory
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.world.disk import SimulatedDisk
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint, Uuid

LOCAL = ReplicaKey(1, Uuid(b"d" * 16))
OTHER = ReplicaKey(2, Uuid(b"e" * 16))
THIRD = ReplicaKey(3, Uuid(b"f" * 16))
ENDPOINT = Endpoint("b", 2)


def voter(key: ReplicaKey, *, has_endpoint: bool = True) -> Voter:
    return Voter(key.node_id, key.directory_id, {"CONTROLLER": ENDPOINT} if has_endpoint else {})


VOTERS = VoterSet.of([voter(LOCAL), voter(OTHER), voter(THIRD, has_endpoint=False)])


def state_file(disk: SimulatedDisk) -> QuorumStateFile:
    disk.make_directory("/q")
    return QuorumStateFile(disk, "/q")


def started(disk: SimulatedDisk, log_epoch: int = 0, *, voters: VoterSet = VOTERS) -> QuorumState:
    history = VoterHistory(None)
    history.load_snapshot(0, 1, voters)
    quorum = QuorumState(
        file=state_file(disk),
        local=LOCAL,
        voters=history,
        is_controller=True,
        listener_name="CONTROLLER",
        random=SeededRandom(1),
        config=RaftConfig(),
    )
    quorum.initialize(log_epoch, 0)
    return quorum


def candidate(quorum: QuorumState) -> CandidateState:
    quorum.to_prospective(0).votes.record(2, is_granted=True)
    return quorum.to_candidate(0)


def leader(quorum: QuorumState) -> LeaderState:
    candidate(quorum).votes.record(2, is_granted=True)
    return quorum.to_leader(5, 0)


# --- starting


@pytest.mark.parametrize(
    ("written", "state"),
    [
        pytest.param(None, UnattachedState, id="first-start"),
        pytest.param(ElectionState(3), UnattachedState, id="no-leader"),
        pytest.param(ElectionState(3, 2), FollowerState, id="another-led"),
        pytest.param(ElectionState(3, 3), UnattachedState, id="one-without-an-endpoint-led"),
        pytest.param(ElectionState(3, None, OTHER), UnattachedState, id="voted-for-another"),
        pytest.param(ElectionState(3, None, LOCAL), CandidateState, id="voted-for-itself"),
        pytest.param(ElectionState(3, 1), ResignedState, id="led-itself"),
    ],
)
@pytest.mark.parametrize("kraft_version", [0, 1])
def test_start_restores_the_state_of_the_file(written: ElectionState | None, state: type, kraft_version: int) -> None:
    disk = SimulatedDisk()
    if written is not None:
        state_file(disk).write(written, kraft_version=kraft_version, static_voters=[1])

    quorum = started(disk)

    assert isinstance(quorum.state, state)
    assert quorum.epoch == (0 if written is None else 3)


def test_vote_is_restored_by_the_next_start() -> None:
    disk = SimulatedDisk()
    quorum = started(disk)
    quorum.to_unattached(4, None, 0)
    quorum.vote_for(OTHER)

    disk.crash()

    assert started(disk).state.voted_key == OTHER


def test_log_epoch_wins_over_an_older_file() -> None:
    quorum = started(SimulatedDisk(), log_epoch=7)

    assert isinstance(quorum.state, UnattachedState)
    assert quorum.epoch == 7


def test_election_state_is_on_disk_before_it_takes_effect() -> None:
    disk = SimulatedDisk()
    candidate(started(disk))
    disk.crash()
    assert state_file(disk).read() == ElectionState(1, None, LOCAL)

    quorum = started(disk)
    leader(quorum)
    disk.crash()
    assert state_file(disk).read() == ElectionState(2, 1)


def test_pre_vote_writes_nothing_to_disk() -> None:
    disk = SimulatedDisk()

    started(disk).to_prospective(0)

    assert state_file(disk).read() is None


# --- transitions


def test_resigned_leader_waits_for_a_later_epoch() -> None:
    quorum = started(SimulatedDisk())
    leader(quorum)
    quorum.to_resigned(0)
    assert quorum.leader_and_epoch == (None, 1)

    quorum.to_unattached(2, None, 0)
    leader(quorum)

    assert quorum.leader_and_epoch == (1, 3)


def test_losing_candidate_returns_to_pre_votes_and_keeps_its_vote() -> None:
    quorum = started(SimulatedDisk())
    candidate(quorum)

    prospective = quorum.to_prospective(0)

    assert prospective.epoch == 1
    assert prospective.voted_key == LOCAL


def test_lost_pre_vote_returns_to_the_known_leader() -> None:
    quorum = started(SimulatedDisk())
    quorum.to_follower(3, 2, ENDPOINT, 0)

    prospective = quorum.to_prospective(0)

    assert (prospective.epoch, prospective.leader_id, prospective.leader_endpoint) == (3, 2, ENDPOINT)


def test_candidate_of_a_newer_epoch_does_not_delay_the_election_timeout() -> None:
    quorum = started(SimulatedDisk())
    quorum.to_unattached(1, None, 0)
    assert isinstance(quorum.state, UnattachedState)
    deadline_ms = quorum.state.election_deadline_ms

    quorum.to_unattached(2, None, deadline_ms - 1)

    assert quorum.state.election_deadline_ms == deadline_ms


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(lambda quorum: quorum.to_leader(0, 0), id="to-leader-without-an-election"),
        pytest.param(lambda quorum: quorum.to_candidate(0), id="to-candidate-without-pre-votes"),
        pytest.param(lambda quorum: quorum.to_resigned(0), id="to-resigned-without-leading"),
        pytest.param(lambda quorum: quorum.to_unattached(0, None, 0), id="to-unattached-in-the-same-epoch"),
        pytest.param(lambda quorum: quorum.to_follower(3, 1, ENDPOINT, 0), id="to-follower-of-itself"),
        pytest.param(lambda quorum: (quorum.to_prospective(0), quorum.to_prospective(0)), id="to-prospective-twice"),
        pytest.param(lambda quorum: (quorum.to_prospective(0), quorum.to_candidate(0)), id="to-candidate-by-one-vote"),
        pytest.param(lambda quorum: (leader(quorum), quorum.to_prospective(0)), id="leader-to-prospective"),
        pytest.param(lambda quorum: (leader(quorum), quorum.to_follower(1, 2, ENDPOINT, 0)), id="leader-to-follower"),
    ],
)
def test_invalid_transitions_fail_an_assertion(move: Callable[[QuorumState], object]) -> None:
    quorum = started(SimulatedDisk())

    with pytest.raises(AssertionError):
        move(quorum)


def test_observer_never_stands_for_election() -> None:
    quorum = started(SimulatedDisk(), voters=VoterSet.of([voter(OTHER)]))

    assert not quorum.is_voter
    with pytest.raises(AssertionError):
        quorum.to_prospective(0)


# --- votes


def in_state(name: str) -> QuorumState:
    quorum = started(SimulatedDisk())
    if name == "unattached":
        quorum.to_unattached(1, None, 0)
    elif name == "unattached-voted-for-other":
        quorum.to_unattached(1, None, 0)
        quorum.vote_for(OTHER)
    elif name == "unattached-with-leader":
        quorum.to_unattached(1, 3, 0)
    elif name == "prospective":
        quorum.to_prospective(0)
    elif name == "candidate":
        candidate(quorum)
    elif name == "leader":
        leader(quorum)
    elif name == "resigned":
        leader(quorum)
        quorum.to_resigned(0)
    else:
        follower = quorum.to_follower(1, 3, ENDPOINT, 0)
        if name != "follower-that-has-not-fetched":
            follower.on_fetched(2_000)
        if name == "follower-that-lost-its-leader":
            follower.lose_leader(50)
    return quorum


@pytest.mark.parametrize(
    ("name", "pre_vote", "vote"),
    [
        ("unattached", True, True),
        ("unattached-voted-for-other", True, True),
        ("unattached-with-leader", True, False),
        ("prospective", True, True),
        ("candidate", True, False),
        ("leader", False, False),
        ("resigned", True, False),
        ("follower-that-has-not-fetched", True, False),
        ("follower", False, False),
        ("follower-that-lost-its-leader", True, False),
    ],
)
def test_votes_granted_in_each_state(name: str, pre_vote: bool, vote: bool) -> None:
    state = in_state(name).state

    assert state.grants_vote(OTHER, is_log_up_to_date=True, is_pre_vote=True) == pre_vote
    assert state.grants_vote(OTHER, is_log_up_to_date=True, is_pre_vote=False) == vote
    assert not state.grants_vote(THIRD, is_log_up_to_date=False, is_pre_vote=True)
    assert not state.grants_vote(THIRD, is_log_up_to_date=False, is_pre_vote=False)


def test_second_vote_in_an_epoch_is_for_the_same_directory_id() -> None:
    state = in_state("unattached-voted-for-other").state

    assert not state.grants_vote(THIRD, is_log_up_to_date=True, is_pre_vote=False)
    assert not state.grants_vote(
        ReplicaKey(OTHER.node_id, THIRD.directory_id), is_log_up_to_date=True, is_pre_vote=False
    )


def test_granted_vote_does_not_end_the_prospective_state() -> None:
    quorum = in_state("prospective")

    quorum.vote_for(OTHER)

    assert isinstance(quorum.state, ProspectiveState)
    assert quorum.state.voted_key == OTHER


@pytest.mark.parametrize("text", ["", "{", "{}", '{"leaderId":1}', '{"leaderId":1,"leaderEpoch":"x","votedId":-1}'])
def test_corrupt_file_is_named_in_the_error(text: str) -> None:
    disk = SimulatedDisk()
    disk.make_directory("/q")
    disk.open("/q/quorum-state", create=True).pwritev([text.encode()], 0)

    with pytest.raises(StorageError, match="/q/quorum-state is corrupt"):
        state_file(disk).read()
