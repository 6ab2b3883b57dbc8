"""`Nemesis`: breaks the cluster, one fault after another, and mends each after a while; all from one seed.

What is broken and how much at a time is drawn per seed: some runs see one fault at a time, some never rest. Whatever
ends a process, it comes back through the recovery of its disk.
"""

import errno
from collections.abc import Callable

from ottla.errors import OttlaError
from ottla.simulator.chance import SeededRandom
from ottla.simulator.cluster import Cluster, SimulatedNode
from ottla.simulator.weather import Storm
from ottla.simulator.witness import Witness

DOWN_MS_MAX = 15_000
FROZEN_MS_MAX = 20_000
CUT_MS_MAX = 15_000
SKEW_MS_MAX = 3_000_000
"""Below an hour: what producers stamp is refused further ahead (message.timestamp.after.max.ms)."""
SLOW_LINK_MS_MAX = 300
SLOW_SYNC_MS_MAX = 1_500
RESTART_RETRY_MS = 500
DISK_ROOM_BYTES_MAX = 20_000


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
        hosts: list[str],
        pause_ms: int,
        note: Callable[[str], object],
    ) -> None:
        self._cluster = cluster
        self._witness = witness
        self._storm = storm
        self._random = random
        self._hosts = hosts
        self._pause_ms = pause_ms
        self._note = note
        self.is_over = False
        self.counts: dict[str, int] = {}
        every: dict[str, tuple[int, Callable[[], str | None]]] = {
            "crash": (4, self._crash),
            "power loss": (2, self._lose_power),
            "power loss everywhere": (1, self._lose_all_power),
            "pause": (2, self._pause),
            "roll": (2, self._roll),
            "isolate": (2, self._isolate),
            "one-way cut": (2, self._cut_one_way),
            "split": (2, self._split),
            "swizzle": (1, self._swizzle),
            "reset": (3, self._reset),
            "slow link": (2, self._slow_link),
            "slow disk": (2, self._slow_disk),
            "failed fsync": (1, self._fail_fsync),
            "disk full": (1, self._fill_disk),
            "clock step": (2, self._step_clock),
            "wipe": (1, self._wipe),
        }
        # Each run knows only some of the faults: a bug may need several of one kind, undisturbed by others.
        self.faults = {name: fault for name, fault in every.items() if random.randrange(3)} or every

    def start(self) -> None:
        self._later(self._pause_ms, self._strike)

    def stop(self) -> None:
        """Mend everything: all nodes run again soon, on a network and on disks that work."""
        self.is_over = True
        self._storm.clear()
        self._cluster.internet.release()
        for place in self._cluster.nodes.values():
            place.sync_ms = 1
            self._heal_disk(place)
            self._cluster.thaw(place.node_id)
            self._start(place)

    def on_stopped(self, place: SimulatedNode, reason: str | None) -> None:
        """A process has ended by itself; after a failed disk what it had not synced may be gone."""
        self._note(f"node {place.node_id} has stopped: {reason or 'in order'}")
        if reason is not None and self._chance(2):
            place.disk.crash(self._random)
            self._witness.data_was_lost(place.node_id)
        self._witness.weigh_promises()
        self._later(DOWN_MS_MAX, lambda: self._start(place))

    # --- choosing

    def _chance(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0

    def _later(self, delay_ms_max: int, action: Callable[[], object]) -> None:
        self._cluster.events.after(1 + self._random.randrange(delay_ms_max), action)

    def _strike(self) -> None:
        if self.is_over:
            return
        names = [name for name, (weight, _) in self.faults.items() for _ in range(weight)]
        name = names[self._random.randrange(len(names))]
        what = self.faults[name][1]()
        if what is not None:
            self.counts[name] = self.counts.get(name, 0) + 1
            self._note(f"{name}: {what}")
        self._later(2 * self._pause_ms, self._strike)

    def _running(self) -> SimulatedNode | None:
        running = [place for place in self._cluster.nodes.values() if place.process is not None]
        return running[self._random.randrange(len(running))] if running else None

    def _host(self) -> str:
        return self._hosts[self._random.randrange(len(self._hosts))]

    # --- processes and machines

    def _crash(self) -> str | None:
        place = self._running()
        if place is None:
            return None
        self._cluster.kill(place.node_id)
        self._witness.weigh_promises()
        # Half of the time it is back before anybody's timeout.
        self._later(DOWN_MS_MAX if self._chance(2) else 500, lambda: self._start(place))
        return f"node {place.node_id}"

    def _lose_power(self) -> str | None:
        place = self._running()
        if place is None:
            return None
        self._cut_power(place)
        return f"node {place.node_id}"

    def _lose_all_power(self) -> str | None:
        for place in self._cluster.nodes.values():
            if place.process is not None:
                self._cut_power(place)
        return "all nodes"

    def _cut_power(self, place: SimulatedNode) -> None:
        self._cluster.cut_power(place.node_id, self._random)
        self._witness.data_was_lost(place.node_id)
        self._later(DOWN_MS_MAX if self._chance(2) else 500, lambda: self._start(place))

    def _pause(self) -> str | None:
        place = self._running()
        if place is None or place.is_frozen:
            return None
        self._cluster.freeze(place.node_id)
        process = place.process

        def go_on() -> None:
            if place.process is process:
                self._cluster.thaw(place.node_id)

        self._later(FROZEN_MS_MAX if self._chance(2) else 1_000, go_on)
        return f"node {place.node_id}"

    def _roll(self) -> str | None:
        place = self._running()
        if place is None or place.is_frozen or place.process is None:
            return None
        self._cluster.touch(place.host)
        place.process.begin_shutdown()
        return f"node {place.node_id}"

    def _wipe(self) -> str | None:
        """Replace the disk of a broker; those of voters are not replaced without telling the quorum."""
        brokers = [each for each in self._cluster.nodes.values() if not each.is_controller and each.process is not None]
        if not brokers:
            return None
        place = brokers[self._random.randrange(len(brokers))]
        self._cluster.kill(place.node_id)
        self._cluster.wipe(place.node_id)
        self._cluster.format(place.node_id)
        self._witness.data_was_lost(place.node_id)
        self._later(DOWN_MS_MAX, lambda: self._start(place))
        return f"node {place.node_id}"

    def _start(self, place: SimulatedNode) -> None:
        """Start the node's process; where its disk refuses, try again later."""
        if place.process is not None:
            return
        try:
            self._cluster.start(place.node_id)
        except (OttlaError, OSError) as error:
            self._note(f"node {place.node_id} does not start: {error}")
            self._cluster.give_up_start(place.node_id)
            self._heal_disk(place)
            self._later(RESTART_RETRY_MS, lambda: self._start(place))

    # --- the network

    def _isolate(self) -> str | None:
        host = self._host()
        self._cut([(host, other) for other in self._hosts] + [(other, host) for other in self._hosts])
        return host

    def _cut_one_way(self) -> str | None:
        source, target = self._host(), self._host()
        self._cut([(source, target)])
        return f"{source} to {target}"

    def _split(self) -> str | None:
        left = [host for host in self._hosts if self._chance(2)]
        right = [host for host in self._hosts if host not in left]
        self._cut([(a, b) for a in left for b in right] + [(b, a) for a in left for b in right])
        return f"{' '.join(left) or 'nobody'} from {' '.join(right) or 'nobody'}"

    def _swizzle(self) -> str | None:
        """Cut some hosts off one after the other, and let them back in another order."""
        chosen = [host for host in self._hosts if self._chance(2)]
        for host in chosen:
            links = [(host, other) for other in self._hosts] + [(other, host) for other in self._hosts]
            self._later(2_000, lambda links=links: self._cut(links))  # type: ignore[misc]
        return " ".join(chosen) or "nobody"

    def _cut(self, links: list[tuple[str, str]]) -> None:
        if self.is_over:
            return
        for source, target in links:
            self._storm.cut(source, target)

        def mend() -> None:
            for source, target in links:
                self._storm.mend(source, target)
            self._cluster.internet.release()

        self._later(CUT_MS_MAX if self._chance(2) else 1_000, mend)

    def _reset(self) -> str | None:
        a, b = self._host(), self._host()
        count = self._cluster.internet.reset_connections(lambda source, target: {source, target} == {a, b})
        return f"{count} connections between {a} and {b}" if count else None

    def _slow_link(self) -> str | None:
        source, target = self._host(), self._host()
        extra_ms = 1 + self._random.randrange(SLOW_LINK_MS_MAX)
        self._storm.slow(source, target, extra_ms)
        self._later(CUT_MS_MAX, lambda: self._storm.slow(source, target, 0))
        return f"{source} to {target}: {extra_ms} ms more"

    # --- disks and clocks

    def _slow_disk(self) -> str | None:
        place = self._running()
        if place is None:
            return None
        place.sync_ms = 1 + self._random.randrange(SLOW_SYNC_MS_MAX)
        self._later(DOWN_MS_MAX, lambda: setattr(place, "sync_ms", 1))
        return f"node {place.node_id}: {place.sync_ms} ms for a sync"

    def _fail_fsync(self) -> str | None:
        place = self._running()
        if place is None:
            return None
        place.disk.fail_next("sync", errno.EIO, skip=self._random.randrange(3))
        return f"node {place.node_id}"

    def _fill_disk(self) -> str | None:
        place = self._running()
        if place is None or place.disk.capacity_bytes is not None:
            return None
        room_bytes = self._random.randrange(DISK_ROOM_BYTES_MAX)
        place.disk.capacity_bytes = place.disk.used_bytes + room_bytes
        self._later(DOWN_MS_MAX, lambda: self._heal_disk(place))
        return f"node {place.node_id}: room for {room_bytes} bytes"

    def _heal_disk(self, place: SimulatedNode) -> None:
        place.disk.capacity_bytes = None
        place.disk.forget_faults()

    def _step_clock(self) -> str | None:
        places = list(self._cluster.nodes.values())
        place = places[self._random.randrange(len(places))]
        skew_ms = self._random.randrange(2 * SKEW_MS_MAX) - SKEW_MS_MAX
        place.set_skew(skew_ms)
        return f"node {place.node_id}: now {skew_ms} ms from the truth"
