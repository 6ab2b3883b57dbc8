"""Quorum faults: a voter of the metadata quorum gets an empty disk, or is removed for a while."""

from ottla.simulator.clients.voter_reconciler import VoterReconciler
from ottla.simulator.faults.fault_context import DOWN_MS_MAX, Fault, FaultContext
from ottla.simulator.world.node import SimulatedNode

AWAY_MS_MAX = 15_000


class QuorumFaults:
    """See the module; ``faults`` has them by name. Injected only while the quorum can do without the voter."""

    def __init__(self, context: FaultContext, voter_reconciler: VoterReconciler) -> None:
        self._context = context
        self._voter_reconciler = voter_reconciler
        self.faults: dict[str, Fault] = {
            "wiped voter": (2, self._wipe_voter),
            "voter sent away": (1, self._send_away),
        }

    def _controller(self) -> SimulatedNode | None:
        if not self._voter_reconciler.is_whole:
            return None
        return self._context.choose([each for each in self._context.cluster.nodes.values() if each.is_controller])

    def _wipe_voter(self) -> str | None:
        """Replace the disk of a voter: it returns as a controller that is no voter."""
        place = self._controller()
        if place is None or place.process is None:
            return None
        cluster = self._context.cluster
        cluster.kill(place.node_id)
        cluster.wipe(place.node_id)
        cluster.format(place.node_id, joins=True)
        self._context.state_observer.note_data_loss(place.node_id)
        self._context.schedule_within(DOWN_MS_MAX, lambda: self._context.start(place))
        return f"node {place.node_id}"

    def _send_away(self) -> str | None:
        place = self._controller()
        if place is None:
            return None
        self._voter_reconciler.send_away(place.node_id)
        self._context.schedule_within(AWAY_MS_MAX, lambda: self._voter_reconciler.take_back(place.node_id))
        return f"node {place.node_id}"
