"""`Nemesis`: breaks the cluster, one fault after another, and mends each after a while; all from one seed.

Each seed draws its kinds of faults and their rate: some runs see one fault at a time, some see them without a pause.
A process that was ended in any way restarts with the recovery of its disk. The kinds of faults are in `process_faults`,
`network_faults`, `disk_faults` and `quorum_faults`.
"""

from collections.abc import Callable

from ottla.simulator.clients.voter_reconciler import VoterReconciler
from ottla.simulator.faults.disk_faults import DiskFaults
from ottla.simulator.faults.fault_context import DOWN_MS_MAX, Fault, FaultContext
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.faults.network_faults import NetworkFaults
from ottla.simulator.faults.process_faults import ProcessFaults
from ottla.simulator.faults.quorum_faults import QuorumFaults
from ottla.simulator.invariants.state_observer import StateObserver
from ottla.simulator.world.cluster import Cluster
from ottla.simulator.world.node import SimulatedNode
from ottla.simulator.world.random_source import SeededRandom


class Nemesis:
    """See the module.

    Args of the constructor:
        hosts: everything that is in the network, clients included.
        pause_ms: from one fault to the next, on average.
    """

    def __init__(
        self,
        cluster: Cluster,
        state_observer: StateObserver,
        network_chaos: NetworkChaos,
        random: SeededRandom,
        *,
        voter_reconciler: VoterReconciler,
        hosts: list[str],
        pause_ms: int,
        note: Callable[[str], object],
    ) -> None:
        self._context = FaultContext(cluster, state_observer, random, note)
        self._voter_reconciler = voter_reconciler
        self._pause_ms = pause_ms
        self._network = NetworkFaults(self._context, network_chaos, hosts)
        self._disks = DiskFaults(self._context)
        self.counts: dict[str, int] = {}
        every: dict[str, Fault] = {
            **ProcessFaults(self._context).faults,
            **self._network.faults,
            **self._disks.faults,
            **QuorumFaults(self._context, voter_reconciler).faults,
        }
        # Each run knows only some of the faults: a bug may need several of one kind, undisturbed by others.
        self.faults = {name: fault for name, fault in every.items() if random.randrange(3)} or every

    @property
    def is_over(self) -> bool:
        return self._context.is_over

    def start(self) -> None:
        self._context.schedule_within(self._pause_ms, self._strike)

    def stop(self) -> None:
        """Mend everything: all nodes run again soon, on a network and on disks that work."""
        self._context.is_over = True
        self._network.mend()
        self._voter_reconciler.want_all()
        for place in self._context.cluster.nodes.values():
            self._disks.mend(place)
            self._context.cluster.thaw(place.node_id)
            self._context.start(place)

    def on_stopped(self, place: SimulatedNode, reason: str | None) -> None:
        """Restart a process that has ended by itself; after a disk failure its unsynced data may be lost."""
        context = self._context
        context.note(f"node {place.node_id} has stopped: {reason or 'in order'}")
        if reason is not None and context.strikes_one_in(2):
            place.disk.crash(context.random, flips_bits=True)
            context.state_observer.note_data_loss(place.node_id, only_unsynced=True)
        context.state_observer.update_excuses()
        context.schedule_within(DOWN_MS_MAX, lambda: context.start(place))

    def _strike(self) -> None:
        if self.is_over:
            return
        names = [name for name, (weight, _) in self.faults.items() for _ in range(weight)]
        name = names[self._context.random.randrange(len(names))]
        what = self.faults[name][1]()
        if what is not None:
            self.counts[name] = self.counts.get(name, 0) + 1
            self._context.note(f"{name}: {what}")
        self._context.schedule_within(2 * self._pause_ms, self._strike)
