"""`ProcessMemory`: `ports.Memory` over the control group, the allocator and the reactor."""

import ctypes
from typing import Protocol

from ottla.ports import ConnectionId, MemoryUse
from ottla.runtime.cgroup_memory import CgroupMemory


class Connections(Protocol):
    """Who has the sockets: `runtime.reactor.Reactor`."""

    def unsent_bytes(self, connection: ConnectionId) -> int: ...

    def abort_connection(self, connection: ConnectionId) -> None: ...


class ProcessMemory:
    """See the module."""

    def __init__(self, connections: Connections, cgroup: CgroupMemory | None = None) -> None:
        self._connections = connections
        self._cgroup = cgroup or CgroupMemory()

    def use(self) -> MemoryUse | None:
        return self._cgroup.use()

    def release(self) -> None:
        """Have glibc return its free pages: it keeps what it may need again, which the group counts as used."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:  # not with musl, nor on macOS
            trim(0)

    def unsent_bytes(self, connection: ConnectionId) -> int:
        return self._connections.unsent_bytes(connection)

    def abort_connection(self, connection: ConnectionId) -> None:
        self._connections.abort_connection(connection)
