"""Where a replica stands after a start, and that no epoch is led twice."""

import pytest

from ottla.errors import StorageError
from ottla.raft.candidate import CandidateState
from ottla.raft.leader import LeaderState
from ottla.raft.quorum_state import QuorumState
from ottla.raft.quorum_state_file import ElectionState, QuorumStateFile
from ottla.raft.records import ReplicaKey
from ottla.raft.resigned import ResignedState
from ottla.raft.unattached import UnattachedState
from ottla.raft.voter_set import Voter, VoterSet
from ottla.simulator.disk import SimulatedDisk
from ottla.types import Uuid

LOCAL = ReplicaKey(1, Uuid(b"d" * 16))
OTHER = ReplicaKey(2, Uuid(b"e" * 16))
VOTERS = VoterSet.of([Voter(LOCAL.node_id, LOCAL.directory_id, {})])


def state_file(disk: SimulatedDisk) -> QuorumStateFile:
    disk.make_directory("/q")
    return QuorumStateFile(disk, "/q")


def started(disk: SimulatedDisk, log_epoch: int = 0) -> QuorumState:
    quorum = QuorumState(file=state_file(disk), local=LOCAL, voters=VOTERS, kraft_version=1)
    quorum.initialize(log_epoch)
    return quorum


@pytest.mark.parametrize(
    ("written", "state"),
    [
        pytest.param(None, UnattachedState, id="first-start"),
        pytest.param(ElectionState(3), UnattachedState, id="nobody-led"),
        pytest.param(ElectionState(3, 2), UnattachedState, id="another-led"),
        pytest.param(ElectionState(3, None, OTHER), UnattachedState, id="voted-for-another"),
        pytest.param(ElectionState(3, None, LOCAL), CandidateState, id="voted-for-itself"),
        pytest.param(ElectionState(3, 1), ResignedState, id="led-itself"),
    ],
)
@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_start_takes_up_what_the_file_says(written: ElectionState | None, state: type, kraft_version: int) -> None:
    disk = SimulatedDisk()
    if written is not None:
        state_file(disk).write(written, kraft_version=1, static_voters=[1])

    quorum = started(disk)

    assert isinstance(quorum.state, state)
    assert quorum.epoch == (0 if written is None else 3)


def test_a_log_that_is_ahead_of_a_lost_file_wins() -> None:
    quorum = started(SimulatedDisk(), log_epoch=7)

    assert quorum.state == UnattachedState(7)


def test_every_election_is_on_the_disk_before_it_counts() -> None:
    disk = SimulatedDisk()
    quorum = started(disk)

    quorum.to_candidate()
    disk.crash()
    assert state_file(disk).read() == ElectionState(1, None, LOCAL)

    quorum = started(disk)
    quorum.to_candidate()
    quorum.to_leader(0)
    disk.crash()
    assert state_file(disk).read() == ElectionState(2, 1)


def test_a_leader_that_resigned_leads_only_a_later_epoch() -> None:
    quorum = started(SimulatedDisk())
    quorum.to_candidate()
    quorum.to_leader(0)
    quorum.to_resigned()
    assert quorum.leader_and_epoch == (None, 1)

    quorum.to_candidate()
    quorum.to_leader(5)

    assert isinstance(quorum.state, LeaderState)
    assert quorum.leader_and_epoch == (1, 2)


@pytest.mark.parametrize("text", ["", "{", "{}", '{"leaderId":1}', '{"leaderId":1,"leaderEpoch":"x","votedId":-1}'])
def test_a_damaged_file_is_named(text: str) -> None:
    disk = SimulatedDisk()
    disk.make_directory("/q")
    disk.open("/q/quorum-state", create=True).pwritev([text.encode()], 0)

    with pytest.raises(StorageError, match="/q/quorum-state is damaged"):
        state_file(disk).read()
