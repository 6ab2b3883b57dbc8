"""`Scene`: what every fault has at hand: the cluster, chance, a later, and the way back of a node that is down."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.errors import OttlaError
from ottla.simulator.chance import SeededRandom
from ottla.simulator.cluster import Cluster, SimulatedNode
from ottla.simulator.witness import Witness

DOWN_MS_MAX = 15_000
RESTART_RETRY_MS = 500

Fault = tuple[int, Callable[[], str | None]]
"""How often it strikes beside the others, and what does it: it says what was hit, None when nothing could be."""


@dataclass(slots=True)
class Scene:
    """See the module. ``is_over`` once the faults have stopped: what was planned for later is not done any more."""

    cluster: Cluster
    witness: Witness
    random: SeededRandom
    note: Callable[[str], object]
    is_over: bool = False

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def later(self, delay_ms_max: int, action: Callable[[], object]) -> None:
        self.cluster.events.after(1 + self.random.randrange(delay_ms_max), action)

    def running(self) -> SimulatedNode | None:
        """Return one of the nodes that run."""
        return self.one_of([place for place in self.cluster.nodes.values() if place.process is not None])

    def one_of(self, places: list[SimulatedNode]) -> SimulatedNode | None:
        return places[self.random.randrange(len(places))] if places else None

    def kill(self, place: SimulatedNode) -> None:
        """End the process as kill -9 does; half of the time it is back before anybody's timeout."""
        self.cluster.kill(place.node_id)
        self.witness.weigh_promises()
        self.start_soon(place)

    def cut_power(self, place: SimulatedNode) -> None:
        self.cluster.cut_power(place.node_id, self.random)
        self.witness.data_was_lost(place.node_id, only_unsynced=True)
        self.start_soon(place)

    def start_soon(self, place: SimulatedNode) -> None:
        self.later(DOWN_MS_MAX if self.chance(2) else 500, lambda: self.start(place))

    def start(self, place: SimulatedNode) -> None:
        """Start the node's process; where its disk refuses, try again later."""
        if place.process is not None:
            return
        try:
            self.cluster.start(place.node_id)
        except (OttlaError, OSError) as error:
            self.note(f"node {place.node_id} does not start: {error}")
            self.cluster.give_up_start(place.node_id)
            heal_disk(place)
            self.later(RESTART_RETRY_MS, lambda: self.start(place))


def heal_disk(place: SimulatedNode) -> None:
    """Give the disk room, and let what was still to fail succeed; directories that are broken stay so."""
    place.disk.capacity_bytes = None
    place.disk.forget_faults()
