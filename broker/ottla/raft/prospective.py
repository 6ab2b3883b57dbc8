"""Prospective: this replica requests pre-votes, before it disturbs the other voters with a new epoch (KIP-996).

It keeps what it knew of the epoch: when the pre-vote is rejected, it follows the known leader, or keeps waiting.
Source: ProspectiveState of Apache Kafka.
"""

from dataclasses import dataclass

from ottla.raft.epoch_election import EpochElection
from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.raft.unattached import grants_without_leader
from ottla.types import Endpoint, LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class ProspectiveState:
    """``votes`` starts with the replica's own."""

    epoch: LeaderEpoch
    leader_id: NodeId | None
    leader_endpoint: Endpoint | None
    voted_key: ReplicaKey | None
    votes: EpochElection
    election_deadline_ms: int

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return grants_without_leader(
            self.leader_id, self.voted_key, candidate, is_log_up_to_date=is_log_up_to_date, is_pre_vote=is_pre_vote
        )
