"""Unattached: this replica knows an epoch, but no leader to follow. It may have voted in the epoch.

``leader_id`` is set when the leader's id is known, but not its address: then no candidate gets a vote.
Source: UnattachedState of Apache Kafka.
"""

from dataclasses import dataclass

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.types import ZERO_UUID, LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class UnattachedState:
    """``election_deadline_ms`` (monotonic): when a voter stands for election."""

    epoch: LeaderEpoch
    leader_id: NodeId | None = None
    voted_key: ReplicaKey | None = None
    election_deadline_ms: int = 0

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return grants_without_leader(
            self.leader_id, self.voted_key, candidate, is_log_up_to_date=is_log_up_to_date, is_pre_vote=is_pre_vote
        )


def grants_without_leader(
    leader_id: NodeId | None,
    voted_key: ReplicaKey | None,
    candidate: ReplicaKey,
    *,
    is_log_up_to_date: bool,
    is_pre_vote: bool,
) -> bool:
    """Whether a replica without a leader votes for ``candidate``: once per epoch, and for no log behind its own."""
    if is_pre_vote:
        return is_log_up_to_date
    if voted_key is not None:
        return voted_key.node_id == candidate.node_id and voted_key.directory_id in (ZERO_UUID, candidate.directory_id)
    return leader_id is None and is_log_up_to_date
