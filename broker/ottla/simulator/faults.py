"""`Nemesis`: breaks the cluster, one fault after another, and mends each after a while; all from one seed.

What is broken and how much at a time is drawn per seed: some runs see one fault at a time, some never rest. Whatever
ends a process, it comes back through the recovery of its disk. The kinds of faults are in `process_faults`,
`network_faults`, `disk_faults` and `quorum_faults`.
"""

from collections.abc import Callable

from ottla.simulator.chance import SeededRandom
from ottla.simulator.cluster import Cluster, SimulatedNode
from ottla.simulator.disk_faults import DiskFaults
from ottla.simulator.network_faults import NetworkFaults
from ottla.simulator.process_faults import ProcessFaults
from ottla.simulator.quorum_faults import QuorumFaults
from ottla.simulator.quorum_keeper import QuorumKeeper
from ottla.simulator.scene import DOWN_MS_MAX, Fault, Scene
from ottla.simulator.weather import Storm
from ottla.simulator.witness import Witness


class Nemesis:
    """See the module.

    Args of the constructor:
        hosts: everything that is in the network, clients included.
        pause_ms: from one fault to the next, on average.
    """

    def __init__(
        self,
        cluster: Cluster,
        witness: Witness,
        storm: Storm,
        random: SeededRandom,
        *,
        keeper: QuorumKeeper,
        hosts: list[str],
        pause_ms: int,
        note: Callable[[str], object],
    ) -> None:
        self._scene = Scene(cluster, witness, random, note)
        self._keeper = keeper
        self._pause_ms = pause_ms
        self._network = NetworkFaults(self._scene, storm, hosts)
        self._disks = DiskFaults(self._scene)
        self.counts: dict[str, int] = {}
        every: dict[str, Fault] = {
            **ProcessFaults(self._scene).faults,
            **self._network.faults,
            **self._disks.faults,
            **QuorumFaults(self._scene, keeper).faults,
        }
        # Each run knows only some of the faults: a bug may need several of one kind, undisturbed by others.
        self.faults = {name: fault for name, fault in every.items() if random.randrange(3)} or every

    @property
    def is_over(self) -> bool:
        return self._scene.is_over

    def start(self) -> None:
        self._scene.later(self._pause_ms, self._strike)

    def stop(self) -> None:
        """Mend everything: all nodes run again soon, on a network and on disks that work."""
        self._scene.is_over = True
        self._network.mend()
        self._keeper.want_all()
        for place in self._scene.cluster.nodes.values():
            self._disks.mend(place)
            self._scene.cluster.thaw(place.node_id)
            self._scene.start(place)

    def on_stopped(self, place: SimulatedNode, reason: str | None) -> None:
        """A process has ended by itself; after a failed disk what it had not synced may be gone."""
        scene = self._scene
        scene.note(f"node {place.node_id} has stopped: {reason or 'in order'}")
        if reason is not None and scene.chance(2):
            place.disk.crash(scene.random, flips_bits=True)
            scene.witness.data_was_lost(place.node_id, only_unsynced=True)
        scene.witness.weigh_promises()
        scene.later(DOWN_MS_MAX, lambda: scene.start(place))

    def _strike(self) -> None:
        if self.is_over:
            return
        names = [name for name, (weight, _) in self.faults.items() for _ in range(weight)]
        name = names[self._scene.random.randrange(len(names))]
        what = self.faults[name][1]()
        if what is not None:
            self.counts[name] = self.counts.get(name, 0) + 1
            self._scene.note(f"{name}: {what}")
        self._scene.later(2 * self._pause_ms, self._strike)
