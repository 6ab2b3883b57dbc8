"""The simulated network: streams that stall instead of losing anything, hosts that are stopped or without power."""

import pytest

from ottla.ports import ConnectionId
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.network import SimulatedNetwork
from ottla.simulator.world.network_fabric import NetworkFabric
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint

ENDPOINT = Endpoint("server", 9092)


class Host:
    """A process that notes its events."""

    def __init__(self, world: "World", name: str) -> None:
        self.events: list[str] = []
        self.network = SimulatedNetwork(world.fabric, name)
        self._buffer = memoryview(bytearray(64))

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint) -> bool:
        self.events.append("accepted")
        return True

    def connected(self, connection: ConnectionId) -> None:
        self.events.append("connected")

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._buffer

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        self.events.append(bytes(self._buffer[:size_bytes]).decode())

    def drained(self, connection: ConnectionId) -> None:
        self.events.append("drained")

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        self.events.append("refused" if was_connection_refused else reason)


class World:
    """A client and a server, and time that passes only here."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.network_chaos = NetworkChaos(SeededRandom(1), fastest_ms=1, slowest_ms=5)
        self.fabric = NetworkFabric(self.clock, self.network_chaos)
        self.client = Host(self, "client")
        self.server = Host(self, "server")
        self.client.network.attach(self.client, [])
        self.server.network.attach(self.server, [("PLAINTEXT", 9092)])

    def run(self, milliseconds: int = 200) -> None:
        for _ in range(milliseconds):
            self.clock.advance(1)
            while (event := self.fabric.events.take_due()) is not None:
                action, arguments = event
                action(*arguments)

    def connect(self) -> ConnectionId:
        connection = self.client.network.connect(ENDPOINT, "PLAINTEXT")
        self.run()
        return connection


@pytest.fixture
def world() -> World:
    return World()


def test_bytes_arrive_in_order_with_any_delays(world: World) -> None:
    connection = world.connect()
    for index in range(50):
        world.client.network.send(connection, [f"{index};".encode()])
    world.run()

    assert "".join(world.server.events[1:]) == "".join(f"{index};" for index in range(50))


def test_cut_link_delivers_in_order_after_it_is_mended(world: World) -> None:
    connection = world.connect()
    world.network_chaos.cut("client", "server")
    world.client.network.send(connection, [b"a"])
    world.run()
    assert world.server.events == ["accepted"]
    world.network_chaos.mend("client", "server")
    world.client.network.send(connection, [b"b"])
    world.run()
    assert world.server.events == ["accepted"]  # behind what is held, until that is sent again

    world.fabric.release()
    world.run()

    assert world.server.events == ["accepted", "a", "b"]


def test_link_cut_twice_must_be_mended_twice(world: World) -> None:
    world.network_chaos.cut("client", "server")
    world.network_chaos.cut("client", "server")
    world.network_chaos.mend("client", "server")
    assert world.network_chaos.travel_ms("client", "server") is None
    world.network_chaos.mend("client", "server")
    assert world.network_chaos.travel_ms("client", "server") is not None


def test_link_can_be_cut_in_one_direction(world: World) -> None:
    world.network_chaos.cut("client", "server")

    assert world.network_chaos.travel_ms("client", "server") is None
    assert world.network_chaos.travel_ms("server", "client") is not None


def test_stopped_process_gets_connections_and_bytes_when_it_continues(world: World) -> None:
    world.fabric.freeze("server")
    connection = world.connect()
    world.client.network.send(connection, [b"hello"])
    world.run()
    assert world.client.events == ["connected"]
    assert world.server.events == []

    world.fabric.thaw("server")

    assert world.server.events == ["accepted", "hello"]


def test_stopped_process_that_is_shut_down_accepts_no_connections_until_it_continues(world: World) -> None:
    connection = world.connect()
    world.fabric.freeze("server")
    world.client.network.send(connection, [b"sent before"])
    world.run()
    world.fabric.shut_down("server")
    world.run()
    assert world.client.events == ["connected", "closed by the peer"]
    assert world.server.events == ["accepted"]
    world.connect()
    assert world.client.events[2:] == ["refused"]

    world.fabric.thaw("server")
    assert world.server.events == ["accepted", "sent before", "shut down"]
    world.connect()
    assert world.client.events[3:] == ["connected"]


def test_process_that_is_shut_down_sends_and_receives_nothing_on_its_connections(world: World) -> None:
    connection = world.connect()
    world.fabric.freeze("server")
    world.network_chaos.cut("server", "client")
    world.fabric.shut_down("server")
    world.client.network.send(connection, [b"too late"])
    world.run()
    world.server.network.send(1, [b"never sent"])
    world.network_chaos.mend("server", "client")
    world.fabric.release()
    world.fabric.thaw("server")
    world.run()

    assert world.client.events == ["connected", "closed by the peer"]
    assert world.server.events == ["accepted", "shut down"]


def test_connection_without_a_listener_fails(world: World) -> None:
    world.server.network.vanish()
    world.connect()

    assert world.client.events == ["refused"]


def test_host_without_power_neither_accepts_nor_resets(world: World) -> None:
    world.server.network.vanish(silently=True)
    world.fabric.cut_power("server")
    world.connect()
    assert world.client.events == []

    world.fabric.restore_power("server")
    world.run()

    assert world.client.events == ["refused"]


def test_lost_host_is_detected_only_when_it_is_back(world: World) -> None:
    connection = world.connect()
    world.server.network.vanish(silently=True)
    world.fabric.cut_power("server")
    world.client.network.send(connection, [b"are you there"])
    world.run()
    assert world.client.events == ["connected"]

    world.fabric.restore_power("server")
    world.run()

    assert world.client.events == ["connected", "Connection reset by peer"]


def test_killed_process_is_detected_at_once(world: World) -> None:
    world.connect()
    world.server.network.vanish()
    world.run()

    assert world.client.events == ["connected", "Connection reset by peer"]


def test_chosen_connections_are_broken_at_both_ends(world: World) -> None:
    world.connect()
    broken = world.fabric.reset_connections(lambda source, target: source == "client")
    world.run()

    assert broken == 1
    assert world.client.events[-1] == world.server.events[-1] == "Connection reset by peer"
    assert world.fabric.reset_connections(lambda source, target: True) == 0
