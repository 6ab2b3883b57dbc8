"""Unattached: this replica knows an epoch, but no leader in it. How every replica starts that led or voted in none."""

from dataclasses import dataclass

from ottla.raft.quorum_state_file import ElectionState
from ottla.types import LeaderEpoch, NodeId


@dataclass(frozen=True, slots=True)
class UnattachedState:
    epoch: LeaderEpoch

    @property
    def leader_id(self) -> NodeId | None:
        return None

    def election(self) -> ElectionState:
        return ElectionState(self.epoch)
