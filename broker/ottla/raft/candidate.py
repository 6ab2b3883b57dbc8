"""Candidate: this replica has voted for itself in a new epoch and counts the votes.

Source: CandidateState of Apache Kafka.
"""

from dataclasses import dataclass

from ottla.raft.epoch_election import EpochElection
from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.types import LeaderEpoch, NodeId


@dataclass(slots=True)
class CandidateState:
    """``votes`` starts with the candidate's own; ``is_backing_off`` once it has lost and waits to stand again."""

    epoch: LeaderEpoch
    local: ReplicaKey
    votes: EpochElection
    election_deadline_ms: int
    is_backing_off: bool = False

    @property
    def leader_id(self) -> NodeId | None:
        return None

    @property
    def voted_key(self) -> ReplicaKey | None:
        return self.local

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, None, self.local)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        del candidate
        return is_pre_vote and is_log_up_to_date
