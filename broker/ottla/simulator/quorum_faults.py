"""What happens to the voters of the metadata quorum: one gets an empty disk, or is sent away for a while."""

from ottla.simulator.cluster import SimulatedNode
from ottla.simulator.quorum_keeper import QuorumKeeper
from ottla.simulator.scene import DOWN_MS_MAX, Fault, Scene

AWAY_MS_MAX = 15_000


class QuorumFaults:
    """See the module; ``faults`` has them by name. Neither strikes while the quorum could not do without the voter."""

    def __init__(self, scene: Scene, keeper: QuorumKeeper) -> None:
        self._scene = scene
        self._keeper = keeper
        self.faults: dict[str, Fault] = {
            "wiped voter": (2, self._wipe_voter),
            "voter sent away": (1, self._send_away),
        }

    def _controller(self) -> SimulatedNode | None:
        if not self._keeper.is_whole:
            return None
        return self._scene.one_of([each for each in self._scene.cluster.nodes.values() if each.is_controller])

    def _wipe_voter(self) -> str | None:
        """Replace the disk of a voter: it comes back as a controller that the quorum does not know."""
        place = self._controller()
        if place is None or place.process is None:
            return None
        cluster = self._scene.cluster
        cluster.kill(place.node_id)
        cluster.wipe(place.node_id)
        cluster.format(place.node_id, joins=True)
        self._scene.witness.data_was_lost(place.node_id)
        self._scene.later(DOWN_MS_MAX, lambda: self._scene.start(place))
        return f"node {place.node_id}"

    def _send_away(self) -> str | None:
        place = self._controller()
        if place is None:
            return None
        self._keeper.send_away(place.node_id)
        self._scene.later(AWAY_MS_MAX, lambda: self._keeper.take_back(place.node_id))
        return f"node {place.node_id}"
