"""Leader: this replica appends for the quorum, and knows how far each voter has what it appended.

The high watermark is the largest offset that a majority of the voters has on stable storage. It is not known before
it passes the start of the leader's epoch (Raft, section 5.4.2): records of earlier epochs are committed by it, never
counted on their own. It never goes back.

Source: LeaderState of Apache Kafka.
"""

from dataclasses import dataclass, field

from ottla.raft.quorum_state_file import ElectionState
from ottla.raft.records import ReplicaKey
from ottla.raft.voter_set import VoterSet
from ottla.types import LeaderEpoch, NodeId, Offset


@dataclass(slots=True)
class LeaderState:
    """``granted_by`` are the voters that elected it; ``epoch_start_offset`` is that of its leader change record."""

    epoch: LeaderEpoch
    local: ReplicaKey
    voters: VoterSet
    granted_by: frozenset[NodeId]
    epoch_start_offset: Offset
    high_watermark: Offset | None = None
    _synced_offsets: dict[NodeId, Offset] = field(default_factory=dict)

    @property
    def leader_id(self) -> NodeId | None:
        return self.local.node_id

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.local.node_id)

    def on_synced(self, voter_id: NodeId, end_offset: Offset) -> bool:
        """Learn that ``voter_id`` has everything below ``end_offset`` on disk; return whether more is committed."""
        if voter_id not in self.voters.voters:
            return False
        self._synced_offsets[voter_id] = max(end_offset, self._synced_offsets.get(voter_id, 0))
        offsets = sorted((self._synced_offsets.get(voter, 0) for voter in self.voters.voters), reverse=True)
        candidate = offsets[len(offsets) // 2]
        if candidate <= self.epoch_start_offset or candidate <= (self.high_watermark or 0):
            return False
        self.high_watermark = candidate
        return True
