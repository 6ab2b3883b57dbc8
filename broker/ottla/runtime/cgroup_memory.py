"""Memory limit and memory use of this process's control groups, cgroup v1 or v2.

============================== ===================================================== ============================
what                           version 2                                             version 1
============================== ===================================================== ============================
limit                          the smaller of ``memory.max`` and ``memory.high``     ``memory.limit_in_bytes``
used, with the page cache      ``memory.current``                                    ``memory.usage_in_bytes``
page cache, in ``memory.stat`` ``active_file``, ``inactive_file``                    ``total_`` of the same
============================== ===================================================== ============================

The kernel accounts the page cache to the group, but reclaims it first, so that it cannot cause an OOM kill: it is
subtracted. Every level of the hierarchy may have a limit; the level that is closest to its limit counts.

Source: the kernel's documentation of cgroup-v1/memory and cgroup-v2.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ottla.ports import MemoryUse

_CGROUPS: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/sys/fs/cgroup")
_NO_LIMIT_BYTES: Final = 1 << 60
"""Version 1 reports a value near 2**63 if there is no limit."""
_RECLAIMABLE: Final = frozenset(
    {"active_file", "inactive_file", "slab_reclaimable", "total_active_file", "total_inactive_file"}
)


class CgroupMemory:
    """Reader of the control groups' files; it reads them at each call, as a limit may change while the node runs."""

    def __init__(self, *, cgroups: Path = _CGROUPS, root: Path = _ROOT) -> None:
        self._levels = list(_levels(cgroups, root))

    def use(self) -> MemoryUse | None:
        """Return the use of the level that is closest to its limit; None if no limit can be read."""
        uses = [use for level in self._levels if (use := _use(level)) is not None]
        return max(uses, key=lambda use: use.used_bytes / use.limit_bytes, default=None)


def _levels(cgroups: Path, root: Path) -> Iterator[Path]:
    """Yield the directories of this process's group and of its ancestors."""
    with contextlib.suppress(OSError):
        for line in cgroups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _upwards(root, path)
            elif "memory" in controllers.split(","):
                yield from _upwards(root / "memory", path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    # In a container the path may be the host's, of which only the mounted part is visible.
    level = mount / path.lstrip("/")
    while level != mount:
        if level.is_dir() and mount in level.parents:
            yield level
        level = level.parent
    yield mount


def _use(level: Path) -> MemoryUse | None:
    limit_bytes = min(
        _number(level / "memory.max"), _number(level / "memory.high"), _number(level / "memory.limit_in_bytes")
    )
    if not 0 < limit_bytes < _NO_LIMIT_BYTES:
        return None
    held_bytes = min(_number(level / "memory.current"), _number(level / "memory.usage_in_bytes"))
    if held_bytes >= _NO_LIMIT_BYTES:
        return None
    return MemoryUse(max(0, held_bytes - _reclaimable_bytes(level / "memory.stat")), limit_bytes)


def _number(file: Path) -> int:
    """Return the value in a file; a missing file and the value ``max`` mean that there is no limit."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return _NO_LIMIT_BYTES


def _reclaimable_bytes(file: Path) -> int:
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    # Version 1 has both; the fields with ``total_`` include child groups, as ``usage_in_bytes`` does.
    names = _RECLAIMABLE if "total_inactive_file" not in fields else {"total_active_file", "total_inactive_file"}
    return sum(int(fields.get(name, 0)) for name in names)
