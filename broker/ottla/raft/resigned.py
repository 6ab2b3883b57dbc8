"""Resigned: this replica led its epoch and does not any more. How a leader starts again after a restart.

It must not lead the same epoch twice: what it had appended but not synced before it stopped may be gone.
"""

from dataclasses import dataclass

from ottla.raft.quorum_state_file import ElectionState
from ottla.types import LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class ResignedState:
    epoch: LeaderEpoch
    node_id: NodeId

    @property
    def leader_id(self) -> NodeId | None:
        """Nobody, for those who look for a leader."""
        return None

    def election(self) -> ElectionState:
        """The file still names this replica, so that nobody else is voted for in its epoch."""
        return ElectionState(self.epoch, self.node_id)
