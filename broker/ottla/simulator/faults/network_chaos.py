"""`NetworkChaos`: a network that is slow, uneven and cut, from one seed; links fail one way or both.

Data on a cut link is kept and arrives later, as TCP sends again; only a broken connection loses data.
"""

from ottla.ports import Random
from ottla.simulator.world.network_fabric import NetworkConditions

_SPIKE_ONE_IN = 200
_SPIKE_FACTOR = 20


class NetworkChaos(NetworkConditions):
    """Links between hosts, by their names; as `NetworkConditions` of `world.network_fabric`.

    Args of the constructor:
        fastest_ms, slowest_ms: between which a piece of data usually travels.
    """

    def __init__(self, random: Random, *, fastest_ms: int, slowest_ms: int) -> None:
        super().__init__(fastest_ms)
        self._random = random
        self._fastest_ms = fastest_ms
        self._spread_ms = slowest_ms - fastest_ms + 1
        self._cuts: dict[tuple[str, str], int] = {}
        self._extra_ms: dict[tuple[str, str], int] = {}
        self.is_fair = False

    def travel_ms(self, source: str, target: str) -> int | None:
        """Return the delay of data sent now from ``source`` to ``target``; None while the link is cut."""
        link = (source, target)
        if link in self._cuts:
            return None
        if self.is_fair or source == target:
            return self._fastest_ms
        travel_ms = self._fastest_ms + self._random.randrange(self._spread_ms)
        if self._random.randrange(_SPIKE_ONE_IN) == 0:
            travel_ms *= _SPIKE_FACTOR
        return travel_ms + self._extra_ms.get(link, 0)

    def cut(self, source: str, target: str) -> None:
        """Cut the link from ``source`` to ``target``; cuts add up, and are mended one by one."""
        if source != target:
            self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def mend(self, source: str, target: str) -> None:
        count = self._cuts.get((source, target), 0)
        if count > 1:
            self._cuts[source, target] = count - 1
        else:
            self._cuts.pop((source, target), None)

    def slow(self, source: str, target: str, extra_ms: int) -> None:
        """Delay data from ``source`` to ``target``; 0 for no extra delay."""
        self._extra_ms[source, target] = extra_ms

    def clear(self) -> None:
        """Mend all links, and deliver everything with the same short delay from now on."""
        self._cuts.clear()
        self._extra_ms.clear()
        self.is_fair = True
