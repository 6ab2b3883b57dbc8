"""Candidate: this replica has voted for itself in a new epoch and counts the votes."""

from dataclasses import dataclass, field

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import VoterSet
from ottla.types import LeaderEpoch, NodeId


@dataclass(slots=True)
class CandidateState:
    """``granted_by`` starts with the candidate itself."""

    epoch: LeaderEpoch
    local: ReplicaKey
    voters: VoterSet
    granted_by: set[NodeId] = field(default_factory=set)

    def __post_init__(self) -> None:
        assert self.voters.is_voter(self.local), "only a voter stands for election"
        self.granted_by.add(self.local.node_id)

    @property
    def leader_id(self) -> NodeId | None:
        return None

    @property
    def is_elected(self) -> bool:
        """Whether more than half of the voters granted their vote."""
        return 2 * len(self.granted_by) > len(self.voters.voters)

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, None, self.local)
