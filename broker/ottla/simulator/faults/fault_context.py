"""`FaultContext`: the cluster, the random source, the event queue and the restarts of nodes that all faults share."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.errors import OttlaError
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.simulator.world.random_source import SeededRandom

DOWN_MS_MAX = 15_000
RESTART_RETRY_MS = 500

Fault = tuple[int, Callable[[], str | None]]
"""Its weight among the faults, and the function that injects it: returns what was hit, None when nothing could be."""


@dataclass(slots=True)
class FaultContext:
    """See the module. ``is_over`` once the faults have stopped: faults planned for later are dropped."""

    cluster: Cluster
    state_observer: StateObserver
    random: SeededRandom
    note: Callable[[str], object]
    is_over: bool = False

    def strikes_one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    def schedule_within(self, delay_ms_max: int, action: Callable[[], object]) -> None:
        self.cluster.events.after(1 + self.random.randrange(delay_ms_max), action)

    def choose_running(self) -> SimulatedNode | None:
        """Return one of the nodes that run."""
        return self.choose([place for place in self.cluster.nodes.values() if place.process is not None])

    def choose(self, places: list[SimulatedNode]) -> SimulatedNode | None:
        return places[self.random.randrange(len(places))] if places else None

    def kill(self, place: SimulatedNode) -> None:
        """End the process as kill -9 does; half of the time it restarts before any peer's timeout."""
        self.cluster.kill(place.node_id)
        self.state_observer.update_excuses()
        self.start_soon(place)

    def cut_power(self, place: SimulatedNode) -> None:
        self.cluster.cut_power(place.node_id, self.random)
        self.state_observer.note_data_loss(place.node_id, only_unsynced=True)
        self.start_soon(place)

    def start_soon(self, place: SimulatedNode) -> None:
        self.schedule_within(DOWN_MS_MAX if self.strikes_one_in(2) else 500, lambda: self.start(place))

    def start(self, place: SimulatedNode) -> None:
        """Start the node's process; after a disk error, try again later."""
        if place.process is not None:
            return
        try:
            self.cluster.start(place.node_id)
        except (OttlaError, OSError) as error:
            self.note(f"node {place.node_id} does not start: {error}")
            self.cluster.give_up_start(place.node_id)
            heal_disk(place)
            self.schedule_within(RESTART_RETRY_MS, lambda: self.start(place))


def heal_disk(place: SimulatedNode) -> None:
    """Remove the capacity limit and pending faults of the disk; broken directories stay broken."""
    place.disk.capacity_bytes = None
    place.disk.clear_faults()
