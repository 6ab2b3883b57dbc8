"""`ClusterFaults`: faults while the operator works: nodes crash or hang, the network fails, operators end.

A crash of a node's process loses no data; only the operator restarts a crashed node.
"""

from collections.abc import Callable

from operator_simulation.situation import Situation
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.world.node import SimulatedNode
from ottla.simulator.world.random_source import SeededRandom

PAUSE_MS = 3_000
LAST_MS_MAX = 8_000
SLOW_MS_MAX = 300


class ClusterFaults:
    """One fault each `PAUSE_MS` on average, from `start` to `stop`."""

    def __init__(
        self,
        situation: Situation,
        network_chaos: NetworkChaos,
        random: SeededRandom,
        *,
        operator_host: str,
        kill_operator: Callable[[], object],
        on_crash: Callable[[SimulatedNode], object],
        note: Callable[[str], object],
    ) -> None:
        self._situation = situation
        self._cluster = situation.cluster
        self._network_chaos = network_chaos
        self._random = random
        self._operator_host = operator_host
        self._kill_operator = kill_operator
        self._on_crash = on_crash
        self._note = note
        self._is_over = True
        self.counts: dict[str, int] = {}

    def start(self) -> None:
        self._is_over = False
        self._later(PAUSE_MS, self._strike)

    def stop(self) -> None:
        """Mend every fault that needs no operator."""
        self._is_over = True
        self._network_chaos.clear()
        self._cluster.fabric.release()
        for place in list(self._cluster.nodes.values()):
            self._cluster.thaw(place.node_id)

    def crash(self) -> str | None:
        """End the process of some node."""
        running = [place.node_id for place in self._cluster.nodes.values() if place.process is not None]
        if not running:
            return None
        node_id = running[self._random.randrange(len(running))]
        self._situation.disturb()
        self._situation.crashed.add(node_id)
        self._cluster.kill(node_id)
        self._situation.state_observer.update_excuses()
        self._on_crash(self._cluster.nodes[node_id])
        return f"node {node_id}"

    def _strike(self) -> None:
        if self._is_over:
            return
        kinds: dict[str, Callable[[], str | None]] = {
            "crash": self.crash,
            "pause": self._pause,
            "isolate": self._isolate,
            "one-way cut": self._cut_one_way,
            "reset": self._reset,
            "slow link": self._slow_link,
            "operator killed": self._end_operator,
        }
        names = list(kinds)
        name = names[self._random.randrange(len(names))]
        what = kinds[name]()
        if what is not None:
            self._situation.disturb()
            self.counts[name] = self.counts.get(name, 0) + 1
            self._note(f"{name}: {what}")
        self._later(2 * PAUSE_MS, self._strike)

    def _later(self, delay_ms_max: int, action: Callable[[], object]) -> None:
        self._cluster.events.after(1 + self._random.randrange(delay_ms_max), action)

    def _hosts(self) -> list[str]:
        return [*self._cluster.by_host, self._operator_host]

    def _host(self) -> str:
        hosts = self._hosts()
        return hosts[self._random.randrange(len(hosts))]

    def _pause(self) -> str | None:
        running = [it for it in self._cluster.nodes.values() if it.process is not None and not it.is_frozen]
        if not running:
            return None
        place = running[self._random.randrange(len(running))]
        process = place.process
        self._situation.disturb(begins=1)
        self._cluster.freeze(place.node_id)

        def resume() -> None:
            self._situation.disturb(begins=-1)
            if place.process is process:
                self._cluster.thaw(place.node_id)

        self._later(LAST_MS_MAX, resume)
        return f"node {place.node_id}"

    def _isolate(self) -> str:
        host = self._host()
        self._cut([link for other in self._hosts() for link in ((host, other), (other, host))])
        return host

    def _cut_one_way(self) -> str:
        source, target = self._host(), self._host()
        self._cut([(source, target)])
        return f"{source} to {target}"

    def _cut(self, links: list[tuple[str, str]]) -> None:
        self._situation.disturb(begins=1)
        for source, target in links:
            self._network_chaos.cut(source, target)

        def mend() -> None:
            self._situation.disturb(begins=-1)
            for source, target in links:
                self._network_chaos.mend(source, target)
            self._cluster.fabric.release()

        self._later(LAST_MS_MAX, mend)

    def _reset(self) -> str:
        a, b = self._host(), self._host()
        self._cluster.fabric.reset_connections(lambda source, target: {source, target} == {a, b})
        return f"{a} and {b}"

    def _slow_link(self) -> str:
        source, target = self._host(), self._host()
        extra_ms = 1 + self._random.randrange(SLOW_MS_MAX)
        self._network_chaos.slow(source, target, extra_ms)
        self._later(LAST_MS_MAX, lambda: self._network_chaos.slow(source, target, 0))
        return f"{source} to {target}: {extra_ms} ms more"

    def _end_operator(self) -> str:
        self._kill_operator()
        return "a new one follows"
