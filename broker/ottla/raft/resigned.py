"""Resigned: this replica led its epoch and does not any more. A leader starts in this state after a restart.

It must not lead the same epoch twice: records that it had appended but not synced before it stopped may be gone. It
notifies the voters, so that they need not wait for their fetches to time out.

Source: ResignedState of Apache Kafka.
"""

from dataclasses import dataclass, field

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.types import LeaderEpoch, NodeId


@dataclass(slots=True)
class ResignedState:
    """``preferred_successors``: the best first; ``unacknowledged``: voters that have not responded yet."""

    epoch: LeaderEpoch
    node_id: NodeId
    election_deadline_ms: int = 0
    preferred_successors: tuple[ReplicaKey, ...] = ()
    unacknowledged: list[NodeId] = field(default_factory=list)

    @property
    def leader_id(self) -> NodeId | None:
        """None: this replica does not lead any more."""
        return None

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None

    def election(self) -> ElectionState:
        """Name this replica in the file, so that no other replica is voted for in its epoch."""
        return ElectionState(self.epoch, self.node_id)

    def grants_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        del candidate
        return is_pre_vote and is_log_up_to_date
