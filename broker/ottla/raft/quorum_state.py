"""`QuorumState`: where this replica stands in the election, in memory and on disk.

Transitions, each on disk before it counts:

- (start) -> Unattached: it led and voted in no epoch, or voted for another replica.
- (start) -> Resigned: the file says that it led the epoch.
- (start) -> Candidate: the file says that it voted for itself.
- Unattached, Resigned, Candidate -> Candidate in the next epoch: it stands for election.
- Candidate -> Leader: a majority voted for it.
- Leader -> Resigned: it stops leading.

Source: QuorumState of Apache Kafka.
"""

from typing import TypeAlias

from ottla.raft.candidate import CandidateState
from ottla.raft.leader import LeaderState
from ottla.raft.quorum_state_file import ElectionState, QuorumStateFile
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.resigned import ResignedState
from ottla.raft.unattached import UnattachedState
from ottla.raft.voter_set import VoterSet
from ottla.types import LeaderEpoch, Offset

EpochState: TypeAlias = UnattachedState | ResignedState | CandidateState | LeaderState


class QuorumState:
    """See the module. ``state`` is the current one."""

    def __init__(self, *, file: QuorumStateFile, local: ReplicaKey, voters: VoterSet, kraft_version: int) -> None:
        self._file = file
        self._local = local
        self._voters = voters
        self._kraft_version = kraft_version
        self.state: EpochState = UnattachedState(0)

    def initialize(self, log_epoch: LeaderEpoch) -> None:
        """Take up what the file says; ``log_epoch`` is the newest in the log, which may be newer than a lost file.

        Raises:
            StorageError: the file cannot be read.
        """
        election = self._file.read() or ElectionState(0)
        if election.epoch < log_epoch:
            election = ElectionState(log_epoch)
        if election.leader_id == self._local.node_id:
            self.state = ResignedState(election.epoch, self._local.node_id)
        elif election.voted_key == self._local and self._voters.is_voter(self._local):
            self.state = CandidateState(election.epoch, self._local, self._voters)
        else:
            self.state = UnattachedState(election.epoch)

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.state.leader_id, self.state.epoch)

    @property
    def leader(self) -> LeaderState | None:
        """The leader's state, when this replica is the leader."""
        return self.state if isinstance(self.state, LeaderState) else None

    def to_candidate(self) -> CandidateState:
        """Stand for election in the next epoch."""
        assert not isinstance(self.state, LeaderState), "a leader does not stand for election"
        candidate = CandidateState(self.state.epoch + 1, self._local, self._voters)
        self._write(candidate.election())
        self.state = candidate
        return candidate

    def to_leader(self, epoch_start_offset: Offset) -> LeaderState:
        """Lead the epoch that this replica was elected for."""
        assert isinstance(self.state, CandidateState), "only a candidate becomes leader"
        assert self.state.is_elected, "a leader needs the votes of a majority"
        leader = LeaderState(
            self.state.epoch, self._local, self._voters, frozenset(self.state.granted_by), epoch_start_offset
        )
        self._write(leader.election())
        self.state = leader
        return leader

    def to_resigned(self) -> None:
        """Stop leading. The file keeps naming this replica: see `ResignedState`."""
        assert isinstance(self.state, LeaderState), "only a leader resigns"
        self.state = ResignedState(self.state.epoch, self._local.node_id)

    def _write(self, election: ElectionState) -> None:
        self._file.write(election, kraft_version=self._kraft_version, static_voters=self._voters.node_ids)
