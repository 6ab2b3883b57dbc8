"""A node near its memory limit closes the clients that hold most, and no others."""

from collections import Counter
from typing import Any

import pytest

from ottla.network.memory_guard import guard_memory
from ottla.ports import MemoryUse
from ottla.simulator.clients.requests import create_topic
from ottla.simulator.world.single_node import Client, RunningNode

MIB = 1024 * 1024
LIMIT_BYTES = 1_000 * MIB


class SimulatedMemory:
    """Memory of a node with that of its connections; freed pages count until `release`."""

    def __init__(self, running: RunningNode) -> None:
        self.running = running
        self.other_bytes = 0
        self.unsent: Counter[int] = Counter()
        self.freed_bytes = 0
        self.limit_bytes: int | None = LIMIT_BYTES
        self.aborted: list[int] = []

    def use(self) -> MemoryUse | None:
        if self.limit_bytes is None:
            return None
        held_bytes = self.running.node.connections.memories.clients.held_bytes
        return MemoryUse(self.other_bytes + self.unsent.total() + held_bytes + self.freed_bytes, self.limit_bytes)

    def release(self) -> None:
        self.freed_bytes = 0

    def unsent_bytes(self, connection: int) -> int:
        return self.unsent[connection]

    def abort_connection(self, connection: int) -> None:
        self.aborted.append(connection)
        self.freed_bytes += self.unsent.pop(connection, 0)
        self.running.node.closed(connection, "its memory is needed")


class Guarded:
    def __init__(self, running: RunningNode) -> None:
        self.running = running
        self.memory = SimulatedMemory(running)
        node = running.node
        self.guard = guard_memory(self.memory, node.connections, node.services, node.network_metrics)

    def check(self) -> list[int]:
        """Advance the clock by a second; return the connections closed meanwhile."""
        self.memory.aborted.clear()
        self.running.run(1_000)
        self.guard.tick(self.running.clock.monotonic_ms())
        return list(self.memory.aborted)

    def connect(self, unsent_bytes: int) -> int:
        connection = id_of(self.running.connect())
        self.memory.unsent[connection] = unsent_bytes
        return connection


def id_of(client: Client) -> int:
    connection: int = client.peer.connection
    return connection


@pytest.fixture
def guarded(running: RunningNode) -> Guarded:
    return Guarded(running)


def test_no_connection_is_closed_below_90_percent_of_the_limit(guarded: Guarded) -> None:
    guarded.connect(100 * MIB)
    guarded.memory.other_bytes = 800 * MIB

    assert guarded.check() == []


def test_largest_connections_are_closed_first_and_no_more_than_needed(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    sizes = [10 * MIB, 200 * MIB, 1 * MIB, 100 * MIB]
    connections = [guarded.connect(size) for size in sizes]
    guarded.memory.other_bytes = 840 * MIB

    assert guarded.check() == [connections[1], connections[3]]
    assert guarded.check() == []
    assert guarded.running.node.network_metrics.closed_for_memory == 2
    (line,) = [each.getMessage() for each in caplog.records if "memory is short" in each.getMessage()]
    assert "closed the 2 largest connections (314572800 bytes)" in line


def test_incoming_frames_count(guarded: Guarded) -> None:
    client = guarded.running.connect()
    client.send_bytes((50 * MIB).to_bytes(4, "big"))
    client.send_bytes(b"begun")
    quiet = guarded.running.connect()
    guarded.memory.other_bytes = 899 * MIB

    assert guarded.check() == [id_of(client)]
    assert not quiet.is_closed


def test_pooled_memory_is_released_before_any_connection_is_closed(guarded: Guarded) -> None:
    guarded.connect(10 * MIB)
    guarded.memory.other_bytes = 800 * MIB
    guarded.memory.freed_bytes = 500 * MIB

    assert guarded.check() == []


def test_small_connections_are_not_closed_however_short_memory_is(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    guarded.connect(64 * 1024 - 1)
    guarded.memory.other_bytes = LIMIT_BYTES

    assert [guarded.check() for _ in range(10)] == [[]] * 10
    assert caplog.text.count("no client's connection holds much of it") == 1


def test_without_a_limit_nothing_is_checked(running: RunningNode) -> None:
    guarded = Guarded(running)
    guarded.memory.limit_bytes = None
    node = running.node
    guard = guard_memory(guarded.memory, node.connections, node.services, node.network_metrics)

    assert (guard.next_deadline_ms(), guard.tick(10_000)) == (None, None)


def test_connections_of_nodes_stay(guarded: Guarded) -> None:
    state: Any = guarded.running.node.connections._connections
    follower = guarded.connect(500 * MIB)
    state[follower].info.follower_id = 2
    guarded.memory.other_bytes = 840 * MIB

    assert guarded.check() == []


def test_node_checks_its_memory_once_a_second(running: RunningNode) -> None:
    create_topic(running.connect(), "t")

    assert Guarded(running).guard.next_deadline_ms() == running.clock.monotonic_ms() + 1_000
