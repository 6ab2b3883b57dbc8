"""Invariants of the metadata quorum in a whole cluster; more of `invariants`."""

from ottla.raft.leader import LeaderState
from ottla.simulator.invariants.ledger import InvariantViolation
from ottla.simulator.invariants.state_observer import Invariant, QuorumView
from ottla.simulator.world.node import SimulatedNode


class QuorumCommitsItsOwnEpoch(Invariant):
    """A leader of the quorum calls nothing committed before a record of its own epoch is.

    A majority that has a record of an earlier epoch may still lose it to a leader that never saw it (Raft, 5.4.2).
    """

    def on_quorum(self, place: SimulatedNode, before: QuorumView, now: QuorumView) -> None:
        state = None if place.process is None else place.process.raft.state
        if not isinstance(state, LeaderState) or state.high_watermark is None:
            return
        if state.high_watermark <= state.epoch_start_offset:
            raise InvariantViolation(
                f"QuorumCommitsItsOwnEpoch: node {place.node_id} leads epoch {state.epoch}, which starts at offset "
                f"{state.epoch_start_offset}, and says that {state.high_watermark} is committed"
            )
