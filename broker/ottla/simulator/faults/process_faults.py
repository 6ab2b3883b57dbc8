"""Process and host faults: processes are killed, stopped, paused or stalled; hosts lose power or get an empty disk."""

from ottla.simulator.faults.fault_context import DOWN_MS_MAX, Fault, FaultContext
from ottla.simulator.world.node import SimulatedNode

FROZEN_MS_MAX = 20_000
STALL_DISCONNECT_MS = 1_500
"""Default of ottla.loop.stall.disconnect.ms."""
SKEW_MS_MAX = 3_000_000
"""Below an hour: timestamps further ahead are rejected (message.timestamp.after.max.ms)."""


class ProcessFaults:
    """See the module; ``faults`` has them by name."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self._cluster = context.cluster
        self.faults: dict[str, Fault] = {
            "crash": (4, self._crash),
            "crash everywhere": (1, self._crash_all),
            "power loss": (2, self._lose_power),
            "power loss everywhere": (1, self._lose_all_power),
            "pause": (2, self._pause),
            "stall": (2, self._stall),
            "roll": (2, self._roll),
            "clock step": (2, self._step_clock),
            "wipe": (1, self._wipe),
        }

    def _crash(self) -> str | None:
        place = self._context.choose_running()
        if place is None:
            return None
        self._context.kill(place)
        return f"node {place.node_id}"

    def _crash_all(self) -> str | None:
        """Kill all processes at once: the files stay as they were written, so nothing may be lost."""
        for place in self._cluster.nodes.values():
            if place.process is not None:
                self._context.kill(place)
        return "all nodes"

    def _lose_power(self) -> str | None:
        place = self._context.choose_running()
        if place is None:
            return None
        self._context.cut_power(place)
        return f"node {place.node_id}"

    def _lose_all_power(self) -> str | None:
        for place in self._cluster.nodes.values():
            if place.process is not None:
                self._context.cut_power(place)
        return "all nodes"

    def _pause(self) -> str | None:
        place = self._freeze(FROZEN_MS_MAX if self._context.strikes_one_in(2) else 1_000)
        return None if place is None else f"node {place.node_id}"

    def _stall(self) -> str | None:
        """Let a disk stop the loop, so that the node disconnects."""
        place = self._freeze(FROZEN_MS_MAX)
        if place is None:
            return None
        process, since_ms = place.process, self._cluster.clock.now_ms

        def disconnect() -> None:
            if place.process is process and place.is_frozen and place.thawed_ms <= since_ms:
                self._cluster.disconnect(place.node_id)

        self._cluster.events.after(STALL_DISCONNECT_MS, disconnect)
        return f"node {place.node_id}"

    def _freeze(self, thaw_ms_max: int) -> SimulatedNode | None:
        """Freeze a process that runs for up to ``thaw_ms_max``; return it."""
        place = self._context.choose_running()
        if place is None or place.is_frozen:
            return None
        self._cluster.freeze(place.node_id)
        process = place.process

        def thaw() -> None:
            if place.process is process:
                self._cluster.thaw(place.node_id)

        self._context.schedule_within(thaw_ms_max, thaw)
        return place

    def _roll(self) -> str | None:
        place = self._context.choose_running()
        if place is None or place.is_frozen or place.process is None:
            return None
        self._cluster.touch(place.host)
        place.process.begin_shutdown()
        return f"node {place.node_id}"

    def _step_clock(self) -> str | None:
        place = self._context.choose(list(self._cluster.nodes.values()))
        assert place is not None, "there is always a node"
        skew_ms = self._context.random.randrange(2 * SKEW_MS_MAX) - SKEW_MS_MAX
        place.set_skew(skew_ms)
        return f"node {place.node_id}: now {skew_ms} ms from the truth"

    def _wipe(self) -> str | None:
        """Replace the disk of a node that is a broker only; `quorum_faults` replaces those of voters."""
        brokers = [each for each in self._cluster.nodes.values() if not each.is_controller and each.process is not None]
        place = self._context.choose(brokers)
        if place is None:
            return None
        self._cluster.kill(place.node_id)
        self._cluster.wipe(place.node_id)
        self._cluster.format(place.node_id)
        self._context.state_observer.note_data_loss(place.node_id)
        self._context.schedule_within(DOWN_MS_MAX, lambda: self._context.start(place))
        return f"node {place.node_id}"
