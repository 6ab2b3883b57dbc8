"""Disk faults: disks are slow or full, fail to sync, or one of several log directories fails for good."""

import errno

from ottla.simulator.faults.fault_context import DOWN_MS_MAX, Fault, FaultContext, heal_disk
from ottla.simulator.world.node import SimulatedNode

SLOW_SYNC_MS_MAX = 1_500
FREE_BYTES_MAX = 20_000
BROKEN_MS_MAX = 20_000


class DiskFaults:
    """See the module; ``faults`` has them by name."""

    def __init__(self, context: FaultContext) -> None:
        self._context = context
        self.faults: dict[str, Fault] = {
            "slow disk": (2, self._slow_disk),
            "failed fsync": (1, self._fail_fsync),
            "disk full": (1, self._fill_disk),
            "failed directory": (2, self._break_directory),
        }

    def mend(self, place: SimulatedNode) -> None:
        """Repair the node's disk; restart a process that has taken a directory offline."""
        place.sync_ms = 1
        place.background.fails_one_in = 0
        heal_disk(place)
        if place.disk.broken_directories:
            self._repair(place)
        elif place.process is not None and place.process.logs.offline_directories():
            self._context.kill(place)

    def _slow_disk(self) -> str | None:
        place = self._context.choose_running()
        if place is None:
            return None
        place.sync_ms = 1 + self._context.random.randrange(SLOW_SYNC_MS_MAX)
        self._context.schedule_within(DOWN_MS_MAX, lambda: setattr(place, "sync_ms", 1))
        return f"node {place.node_id}: {place.sync_ms} ms for a sync"

    def _fail_fsync(self) -> str | None:
        place = self._context.choose_running()
        if place is None:
            return None
        place.disk.fail_next("sync", errno.EIO, skip=self._context.random.randrange(3))
        return f"node {place.node_id}"

    def _fill_disk(self) -> str | None:
        place = self._context.choose_running()
        if place is None or place.disk.capacity_bytes is not None:
            return None
        free_bytes = self._context.random.randrange(FREE_BYTES_MAX)
        place.disk.capacity_bytes = place.disk.used_bytes + free_bytes
        self._context.schedule_within(DOWN_MS_MAX, lambda: heal_disk(place))
        return f"node {place.node_id}: {free_bytes} bytes left"

    def _break_directory(self) -> str | None:
        """Let one log directory fail until an operator mounts it again, which needs a restart."""
        place = self._context.choose_running()
        if place is None or place.process is None or "broker" not in place.roles or place.disk.broken_directories:
            return None
        config = place.process.config
        directories = [each for each in config.log_dirs if each != config.metadata_log_dir]
        if not directories:
            return None
        directory = directories[self._context.random.randrange(len(directories))]
        place.disk.break_directory(directory)
        self._context.schedule_within(BROKEN_MS_MAX, lambda: self._repair(place))
        return f"node {place.node_id}: {directory}"

    def _repair(self, place: SimulatedNode) -> None:
        if place.disk.broken_directories:
            place.disk.repair_directories()
            if place.process is not None:
                self._context.note(f"node {place.node_id} is restarted, with its directory repaired")
                self._context.kill(place)
