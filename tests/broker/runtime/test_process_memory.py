"""The memory port combines the control group with the reactor's unsent bytes."""

from pathlib import Path

from ottla.runtime.cgroup_memory import CgroupMemory
from ottla.runtime.process_memory import ProcessMemory


class Connections:
    def __init__(self) -> None:
        self.aborted: list[int] = []

    def unsent_bytes(self, connection: int) -> int:
        return connection * 10

    def abort_connection(self, connection: int) -> None:
        self.aborted.append(connection)


def test_memory_of_connections_is_the_reactors(tmp_path: Path) -> None:
    connections = Connections()
    memory = ProcessMemory(connections, CgroupMemory(cgroups=tmp_path / "none", root=tmp_path))
    memory.abort_connection(7)
    memory.release()
    for _ in memory.prepare():
        memory.release()

    assert memory.use() is None
    assert memory.unsent_bytes(3) == 30
    assert connections.aborted == [7]
