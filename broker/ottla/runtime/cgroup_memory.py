"""The limit of memory that the control groups of this process have, of version 1 or 2, and what is used of it.

============================== ===================================================== ============================
what                           version 2                                             version 1
============================== ===================================================== ============================
limit                          the smaller of ``memory.max`` and ``memory.high``     ``memory.limit_in_bytes``
used, with the page cache      ``memory.current``                                    ``memory.usage_in_bytes``
page cache, in ``memory.stat`` ``active_file``, ``inactive_file``                    ``total_`` of the same
============================== ===================================================== ============================

The page cache, which holds what a broker has read and written, counts for the group and is given up first: it is no use
that could end in an OOM kill. Limits may be set on every level; the one that is nearest to its limit counts.

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
"""Version 1 says a number of pages near 2**63 where there is no limit."""
_RECLAIMABLE: Final = frozenset(
    {"active_file", "inactive_file", "slab_reclaimable", "total_active_file", "total_inactive_file"}
)


class CgroupMemory:
    """See the module. The files are read at each call: a limit may be changed while the node runs."""

    def __init__(self, *, cgroups: Path = _CGROUPS, root: Path = _ROOT) -> None:
        self._levels = list(_levels(cgroups, root))

    def use(self) -> MemoryUse | None:
        """Return the use of the level that is nearest to its limit; None where no level has one that can be read."""
        uses = [use for level in self._levels if (use := _use(level)) is not None]
        return max(uses, key=lambda use: use.used_bytes / use.limit_bytes, default=None)


def _levels(cgroups: Path, root: Path) -> Iterator[Path]:
    """Yield the directories of this process's group and of those above it."""
    with contextlib.suppress(OSError):
        for line in cgroups.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                yield from _upwards(root, path)
            elif "memory" in controllers.split(","):
                yield from _upwards(root / "memory", path)


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    # In a container the path may be the host's, of which only what is mounted here can be seen.
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
    """Return what a file says; what has no such file, or says ``max``, has no limit."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return _NO_LIMIT_BYTES


def _reclaimable_bytes(file: Path) -> int:
    try:
        fields = dict(line.split() for line in file.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    # Version 1 has both, of which those with ``total_`` count the groups below as ``usage_in_bytes`` does.
    names = _RECLAIMABLE if "total_inactive_file" not in fields else {"total_active_file", "total_inactive_file"}
    return sum(int(fields.get(name, 0)) for name in names)
