"""`ProcessMemory`: `ports.Memory` over the control group, the allocator and the reactor."""

from collections.abc import Callable, Iterator
from typing import Protocol

from ottla.ports import ConnectionId, MemoryUse
from ottla.runtime.cgroup_memory import CgroupMemory


class Connections(Protocol):
    """Owner of the sockets: `runtime.reactor.Reactor`."""

    def unsent_bytes(self, connection: ConnectionId) -> int: ...

    def abort_connection(self, connection: ConnectionId) -> None: ...


class ProcessMemory:
    """Memory limit, memory use and large output queues of this process."""

    def __init__(self, connections: Connections, cgroup: CgroupMemory | None = None) -> None:
        self._connections = connections
        self._cgroup = cgroup or CgroupMemory()
        self._trim: Callable[[int], object] | None = None

    def use(self) -> MemoryUse | None:
        return self._cgroup.use()

    def release(self) -> None:
        """Have glibc return free pages, which it keeps for reuse and which count as used by the control group."""
        if self._trim is None:
            self._trim = _find_trim()
        self._trim(0)

    def prepare(self) -> Iterator[None]:
        """Import the module that `release` needs while the node is idle: it takes some ms, and needs descriptors."""
        self._trim = _find_trim()
        yield

    def unsent_bytes(self, connection: ConnectionId) -> int:
        return self._connections.unsent_bytes(connection)

    def abort_connection(self, connection: ConnectionId) -> None:
        self._connections.abort_connection(connection)


def _find_trim() -> Callable[[int], object]:
    import ctypes

    trim: Callable[[int], object] = getattr(ctypes.CDLL(None), "malloc_trim", _do_nothing)
    return trim


def _do_nothing(_: int) -> None:
    """Stand for malloc_trim, which neither musl nor macOS has."""
