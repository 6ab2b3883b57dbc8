"""Network faults: hosts are isolated, links fail one way or both, connections break, data is slow."""

from ottla.simulator.faults.fault_context import Fault, FaultContext
from ottla.simulator.faults.network_chaos import NetworkChaos

CUT_MS_MAX = 15_000
SLOW_LINK_MS_MAX = 300


class NetworkFaults:
    """See the module; ``faults`` has them by name.

    Args of the constructor:
        hosts: everything that is in the network, clients included.
    """

    def __init__(self, context: FaultContext, network_chaos: NetworkChaos, hosts: list[str]) -> None:
        self._context = context
        self._network_chaos = network_chaos
        self._hosts = hosts
        self.faults: dict[str, Fault] = {
            "isolate": (2, self._isolate),
            "one-way cut": (2, self._cut_one_way),
            "split": (2, self._split),
            "swizzle": (1, self._swizzle),
            "reset": (3, self._reset),
            "slow link": (2, self._slow_link),
        }

    def mend(self) -> None:
        """Deliver everything, fast."""
        self._network_chaos.clear()
        self._context.cluster.fabric.release()

    def _host(self) -> str:
        return self._hosts[self._context.random.randrange(len(self._hosts))]

    def _isolate(self) -> str | None:
        host = self._host()
        self._cut([(host, other) for other in self._hosts] + [(other, host) for other in self._hosts])
        return host

    def _cut_one_way(self) -> str | None:
        source, target = self._host(), self._host()
        self._cut([(source, target)])
        return f"{source} to {target}"

    def _split(self) -> str | None:
        left = [host for host in self._hosts if self._context.strikes_one_in(2)]
        right = [host for host in self._hosts if host not in left]
        self._cut([(a, b) for a in left for b in right] + [(b, a) for a in left for b in right])
        return f"{' '.join(left) or 'nobody'} from {' '.join(right) or 'nobody'}"

    def _swizzle(self) -> str | None:
        """Cut some hosts off one after the other, and let them back in another order."""
        chosen = [host for host in self._hosts if self._context.strikes_one_in(2)]
        for host in chosen:
            links = [(host, other) for other in self._hosts] + [(other, host) for other in self._hosts]
            self._context.schedule_within(2_000, lambda links=links: self._cut(links))  # type: ignore[misc]
        return " ".join(chosen) or "nobody"

    def _cut(self, links: list[tuple[str, str]]) -> None:
        if self._context.is_over:
            return
        for source, target in links:
            self._network_chaos.cut(source, target)

        def mend() -> None:
            for source, target in links:
                self._network_chaos.mend(source, target)
            self._context.cluster.fabric.release()

        self._context.schedule_within(CUT_MS_MAX if self._context.strikes_one_in(2) else 1_000, mend)

    def _reset(self) -> str | None:
        a, b = self._host(), self._host()
        count = self._context.cluster.fabric.reset_connections(lambda source, target: {source, target} == {a, b})
        return f"{count} connections between {a} and {b}" if count else None

    def _slow_link(self) -> str | None:
        source, target = self._host(), self._host()
        extra_ms = 1 + self._context.random.randrange(SLOW_LINK_MS_MAX)
        self._network_chaos.slow(source, target, extra_ms)
        self._context.schedule_within(CUT_MS_MAX, lambda: self._network_chaos.slow(source, target, 0))
        return f"{source} to {target}: {extra_ms} ms more"
