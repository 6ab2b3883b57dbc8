"""`QuorumState`: the election state of this replica, in memory and on disk.

`TRANSITIONS` lists the valid transitions (`docs/states.md` has its diagram). The initial state is:

- Resigned: the file names this replica as the leader of the epoch;
- Candidate: it had voted for itself;
- Follower: the file names a leader whose endpoint is known;
- Unattached: otherwise.

An observer is only ever Unattached or Follower (or Resigned, when it was removed while it led).

Source: QuorumState of Apache Kafka.
"""

from dataclasses import replace
from typing import Final, TypeAlias

from ottla.ports import Random
from ottla.raft.candidate import CandidateState
from ottla.raft.config import RaftConfig
from ottla.raft.epoch_election import EpochElection
from ottla.raft.follower import FollowerState
from ottla.raft.leader import LeaderState
from ottla.raft.prospective import ProspectiveState
from ottla.raft.quorum_state_file import ElectionState, QuorumStateFile
from ottla.raft.records import LeaderAndEpoch, ReplicaKey
from ottla.raft.resigned import ResignedState
from ottla.raft.unattached import UnattachedState
from ottla.raft.voter_history import VoterHistory
from ottla.types import NEVER_MS, ZERO_UUID, Endpoint, LeaderEpoch, NodeId, Offset

EpochState: TypeAlias = (
    UnattachedState | ProspectiveState | CandidateState | LeaderState | FollowerState | ResignedState
)

TRANSITIONS: Final[dict[tuple[type[EpochState], type[EpochState]], str]] = {
    (UnattachedState, UnattachedState): "a higher epoch, or this replica votes *",
    (UnattachedState, ProspectiveState): "no leader before the election time-out",
    (UnattachedState, FollowerState): "a leader is found *",
    (ProspectiveState, UnattachedState): "a higher epoch, or the pre-vote is lost *",
    (ProspectiveState, ProspectiveState): "this replica votes *",
    (ProspectiveState, CandidateState): "a majority would vote for it *",
    (ProspectiveState, FollowerState): "a leader is found, or the pre-vote is lost *",
    (CandidateState, UnattachedState): "a higher epoch *",
    (CandidateState, ProspectiveState): "the election is lost or timed out",
    (CandidateState, LeaderState): "a majority votes for it *",
    (CandidateState, FollowerState): "another is elected *",
    (LeaderState, UnattachedState): "a higher epoch *",
    (LeaderState, FollowerState): "another leader, of a higher epoch *",
    (LeaderState, ResignedState): "it stops leading",
    (FollowerState, UnattachedState): "a higher epoch *",
    (FollowerState, FollowerState): "another leader, of a higher epoch *",
    (FollowerState, ProspectiveState): "the leader is lost",
    (ResignedState, UnattachedState): "a higher epoch, or the election time-out *",
    (ResignedState, ProspectiveState): "it is the only voter",
    (ResignedState, FollowerState): "a leader is found *",
}
"""The cause of each transition. Those with * are on disk before they take effect."""


class QuorumState:
    """See the module. ``state`` is the current one; ``now_ms`` is monotonic everywhere.

    A method that writes the file raises StorageError when the disk fails; the state is unchanged then.
    """

    def __init__(
        self,
        *,
        file: QuorumStateFile,
        local: ReplicaKey,
        voters: VoterHistory,
        is_controller: bool,
        listener_name: str,
        random: Random,
        config: RaftConfig,
    ) -> None:
        self._file = file
        self._local = local
        self._voters = voters
        self._is_controller = is_controller
        self._listener_name = listener_name
        self._random = random
        self._config = config
        self._written: tuple[ElectionState, int] | None = None
        self.state: EpochState = UnattachedState(0)
        self.responded_ms = 0
        """When a leader last responded to a fetch of this replica."""

    def initialize(self, log_epoch: LeaderEpoch, now_ms: int) -> None:
        """Restore the state from the file; ``log_epoch``, the newest in the log, wins if the file is older.

        A voter that starts without a leader does not wait for a whole election timeout: it sends a pre-vote, which
        disturbs no quorum that has a leader.

        Raises:
            StorageError: the file cannot be read.
        """
        election = self._file.read() or ElectionState(0)
        if election.epoch < log_epoch:
            election = ElectionState(log_epoch)
        deadline_ms = now_ms + self.election_timeout_ms()
        leader_id = election.leader_id
        if leader_id == self._local.node_id:
            # A voter that was removed while it led is sent no records, and has no voters to notify.
            remote = [voter for voter in self._voters.voters.node_ids if voter != leader_id]
            self.state = ResignedState(election.epoch, leader_id, deadline_ms, (), remote if self.is_voter else [])
        elif self.is_voter and election.voted_key in (self._local, ReplicaKey(self._local.node_id, ZERO_UUID)):
            self.state = CandidateState(election.epoch, self._local, self._new_election(), deadline_ms)
        elif leader_id is not None and (endpoint := self._endpoint_of(leader_id)) is not None:
            fetch_deadline_ms = now_ms + self._config.fetch_timeout_ms
            self.state = FollowerState(election.epoch, leader_id, endpoint, election.voted_key, fetch_deadline_ms)
        else:
            soon_ms = now_ms + self.random_ms(self._config.election_timeout_ms // 5)
            self.state = UnattachedState(election.epoch, leader_id, election.voted_key, soon_ms)

    # --- state

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        return self.state.leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self.state.leader_id, self.state.epoch)

    @property
    def leader(self) -> LeaderState | None:
        """The leader's state, when this replica is the leader."""
        return self.state if isinstance(self.state, LeaderState) else None

    @property
    def leader_endpoint(self) -> Endpoint | None:
        """Listener address of another replica that leads, if it is known."""
        return self.state.leader_endpoint if isinstance(self.state, FollowerState | ProspectiveState) else None

    @property
    def in_contact_until_ms(self) -> int:
        """When this replica has been apart from the quorum for the fetch time-out (monotonic), as far as is known now.

        A leader is in contact while a majority fetches, and `NEVER_MS` if it is the majority by itself; another while
        the leader responds to its fetches. An announcement does not count: it may come from one that hears nothing.
        """
        if isinstance(self.state, LeaderState):
            resigns_at_ms = self.state.check_quorum_due_ms
            if resigns_at_ms is None:
                return NEVER_MS
            return resigns_at_ms - self.state.check_quorum_timeout_ms + self._config.fetch_timeout_ms
        return self.responded_ms + self._config.fetch_timeout_ms

    @property
    def is_voter(self) -> bool:
        return self._is_controller and self._voters.voters.is_voter(self._local)

    def election_timeout_ms(self) -> int:
        """Return a random election timeout: between once and twice the configured time."""
        return self._config.election_timeout_ms + self.random_ms(self._config.election_timeout_ms)

    def random_ms(self, stop_ms: int) -> int:
        """Return a random time below ``stop_ms``; 0 when that is 0."""
        return self._random.randrange(max(stop_ms, 1))

    # --- transitions

    def to_unattached(
        self, epoch: LeaderEpoch, leader_id: NodeId | None, now_ms: int, *, election_deadline_ms: int | None = None
    ) -> None:
        """Enter ``epoch`` without a leader to follow.

        The time left until an election does not change, so that a candidate that cannot win does not delay the
        elections of other voters.
        """
        state = self.state
        assert epoch > state.epoch or (epoch == state.epoch and isinstance(state, ProspectiveState)), (
            f"{state} cannot become unattached in epoch {epoch}"
        )
        if election_deadline_ms is None:
            election_deadline_ms = now_ms + self.election_timeout_ms()
            if isinstance(state, UnattachedState | CandidateState | ResignedState | ProspectiveState):
                election_deadline_ms = state.election_deadline_ms
                if election_deadline_ms <= now_ms:
                    election_deadline_ms = now_ms + self.election_timeout_ms()
        voted_key = state.voted_key if epoch == state.epoch else None
        self._become(UnattachedState(epoch, leader_id, voted_key, election_deadline_ms))

    def stand_within(self, now_ms: int, delay_ms: int) -> None:
        """Stand for election within ``delay_ms``, if this replica waits without a leader."""
        state = self.state
        if isinstance(state, UnattachedState) and state.leader_id is None:
            deadline_ms = min(state.election_deadline_ms, now_ms + self.random_ms(delay_ms))
            self.state = replace(state, election_deadline_ms=deadline_ms)

    def vote_for(self, candidate: ReplicaKey) -> None:
        """Vote for ``candidate`` in the current epoch."""
        state = self.state
        assert isinstance(state, UnattachedState | ProspectiveState), f"{state} does not vote"
        if state.voted_key is not None:
            return
        assert state.leader_id is None, f"{state} knows a leader"
        self._become(replace(state, voted_key=candidate))

    def to_follower(self, epoch: LeaderEpoch, leader_id: NodeId, endpoint: Endpoint, now_ms: int) -> FollowerState:
        """Follow ``leader_id`` in ``epoch``."""
        state = self.state
        assert leader_id != self._local.node_id, "a replica does not follow itself"
        assert epoch > state.epoch or (epoch == state.epoch and not isinstance(state, LeaderState)), (
            f"{state} cannot follow {leader_id} in epoch {epoch}"
        )
        voted_key = state.voted_key if epoch == state.epoch else None
        follower = FollowerState(epoch, leader_id, endpoint, voted_key, now_ms + self._config.fetch_timeout_ms)
        self._become(follower)
        return follower

    def to_prospective(self, now_ms: int) -> ProspectiveState:
        """Request pre-votes. Nothing is written to disk: pre-votes change nothing for other replicas."""
        state = self.state
        assert self.is_voter, "only a voter stands for election"
        # The only voter stands at once when it starts, also when it had led before.
        assert not isinstance(state, LeaderState | ProspectiveState), f"{state} does not stand"
        prospective = ProspectiveState(
            state.epoch,
            state.leader_id,
            self.leader_endpoint,
            state.voted_key,
            self._new_election(),
            now_ms + self.election_timeout_ms(),
        )
        self._enter(prospective)
        return prospective

    def to_candidate(self, now_ms: int) -> CandidateState:
        """Stand for election in the next epoch."""
        assert self.is_voter, "only a voter stands for election"
        state = self.state
        assert isinstance(state, ProspectiveState), f"{state} has not requested pre-votes"
        assert state.votes.is_won, "a candidate needs the pre-votes of a majority"
        deadline_ms = now_ms + self.election_timeout_ms()
        candidate = CandidateState(state.epoch + 1, self._local, self._new_election(), deadline_ms)
        self._become(candidate)
        return candidate

    def to_leader(self, epoch_start_offset: Offset, now_ms: int) -> LeaderState:
        """Lead the epoch that this replica was elected for."""
        state = self.state
        assert isinstance(state, CandidateState), "only a candidate becomes leader"
        assert state.votes.is_won, "a leader needs the votes of a majority"
        timeout_ms = self._config.fetch_timeout_ms * 3 // 2
        leader = LeaderState(
            state.epoch,
            self._local,
            self._voters.voters,
            tuple(state.votes.granted_by),
            epoch_start_offset,
            check_quorum_timeout_ms=timeout_ms,
            check_quorum_deadline_ms=now_ms + timeout_ms,
        )
        self._become(leader)
        return leader

    def to_resigned(self, now_ms: int) -> ResignedState:
        """Stop leading. The file keeps naming this replica: see `ResignedState`."""
        leader = self.state
        assert isinstance(leader, LeaderState), "only a leader resigns"
        resigned = ResignedState(
            leader.epoch,
            self._local.node_id,
            now_ms + self.election_timeout_ms(),
            leader.voters_by_offset(),
            leader.remote_voters(),
        )
        self._enter(resigned)
        return resigned

    def _new_election(self) -> EpochElection:
        election = EpochElection(tuple(self._voters.voters.node_ids))
        election.record(self._local.node_id, is_granted=True)
        return election

    def _endpoint_of(self, node_id: NodeId) -> Endpoint | None:
        return self._voters.voters.endpoint_of(node_id, self._listener_name)

    def _become(self, state: EpochState) -> None:
        kraft_version = self._voters.kraft_version
        written = (state.election(), kraft_version)
        if written != self._written:
            # A lost pre-vote leads back to the state that is in the file.
            self._file.write(state.election(), kraft_version=kraft_version, static_voters=self._voters.voters.node_ids)
            self._written = written
        self._enter(state)

    def _enter(self, state: EpochState) -> None:
        assert (type(self.state), type(state)) in TRANSITIONS, f"{self.state} cannot become {state}"
        self.state = state
