"""A limit of CPU for each node of a benchmark, by control groups of Linux (version 1 or 2), as root.

A node of Kubernetes with ``limits.cpu: 500m`` has the same: 50 ms of CPU in each period of 100 ms.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

PERIOD_US: Final = 100_000
_ROOT: Final = Path("/sys/fs/cgroup")
_REMOVE_TIMEOUT_S: Final = 5


class CpuQuotas:
    """Control groups of the nodes and of the benchmark itself, with priority over the host's other load."""

    def __init__(self, parent: Path, cores: float) -> None:
        self._parent = parent
        self._cores = cores

    def limit(self, name: str, pid: int) -> None:
        """Put a process, and those that it starts from now on, into a group with the quota.

        Raises:
            OSError: the kernel does not allow it.
        """
        group = self._parent / name
        group.mkdir(exist_ok=True)
        quota_us = int(self._cores * PERIOD_US)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cgroup.procs").write_text(str(pid))

    def join(self) -> None:
        """Put this process into a group without quota, so that its clients share the priority of the nodes."""
        group = self._parent / "clients"
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        """Put this process, and those that it has started, back into the root group."""
        for pid in (self._parent / "clients" / "cgroup.procs").read_text().split():
            # It may have ended meanwhile.
            with contextlib.suppress(ProcessLookupError):
                (self._parent.parent / "cgroup.procs").write_text(pid)

    def throttled_s(self) -> float:
        """Return the time that the groups had to wait for their next period, summed."""
        stats = [path.read_text() for path in self._parent.glob("*/cpu.stat")]
        return sum(map(read_throttled_s, stats))


@contextmanager
def available(cores: float) -> Iterator[CpuQuotas | None]:
    """Give quotas of so many cores, or None if control groups are not writable; remove the groups at the end."""
    root = _ROOT / "cpu" if (_ROOT / "cpu").is_dir() else _ROOT
    parent = root / f"ottla-benchmark-{os.getpid()}"
    try:
        parent.mkdir()
    except OSError:
        yield None
        return
    try:
        if (parent / "cgroup.subtree_control").exists():
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text("+cpu")
        has_quotas = (parent / "cpu.cfs_quota_us").exists() or (parent / "cpu.max").exists()
        if not has_quotas:
            yield None
            return
        _prioritize(parent)
        quotas = CpuQuotas(parent, cores)
        quotas.join()
        try:
            yield quotas
        finally:
            quotas.leave()
    finally:
        for group in [*(path for path in parent.iterdir() if path.is_dir()), parent]:
            _remove(group)


def _prioritize(group: Path) -> None:
    """Give a group more weight than its siblings: the host's other load is no part of the measurement."""
    if (group / "cpu.weight").exists():
        (group / "cpu.weight").write_text("10000")
    else:
        (group / "cpu.shares").write_text("100000")


def _remove(group: Path) -> None:
    # A group is busy until the kernel has reaped the last of its processes.
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            continue
        return


def read_throttled_s(stat: str) -> float:
    """Read ``cpu.stat`` of either version."""
    values = {key: int(value) for key, value in (line.split() for line in stat.splitlines())}
    return values.get("throttled_usec", 0) / 1e6 + values.get("throttled_time", 0) / 1e9
