"""The simulated network: streams that stall instead of losing anything, hosts that are stopped or without power."""

import pytest

from ottla.ports import ConnectionId
from ottla.simulator.faults.network_chaos import NetworkChaos
from ottla.simulator.world.clock import SimulatedClock
from ottla.simulator.world.network import SimulatedNetwork
from ottla.simulator.world.network_fabric import NetworkFabric
from ottla.simulator.world.random_source import SeededRandom
from ottla.types import Endpoint

DOOR = Endpoint("server", 9092)


class Host:
    """A process that notes what reaches it."""

    def __init__(self, world: "World", name: str) -> None:
        self.told: list[str] = []
        self.network = SimulatedNetwork(world.fabric, name)
        self._buffer = memoryview(bytearray(64))

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint) -> bool:
        self.told.append("accepted")
        return True

    def connected(self, connection: ConnectionId) -> None:
        self.told.append("connected")

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._buffer

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        self.told.append(bytes(self._buffer[:size_bytes]).decode())

    def drained(self, connection: ConnectionId) -> None:
        self.told.append("drained")

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None:
        self.told.append("refused" if was_refused else reason)


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
        connection = self.client.network.connect(DOOR, "PLAINTEXT")
        self.run()
        return connection


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_sent_arrives_in_order_however_long_each_piece_takes(world: World) -> None:
    connection = world.connect()
    for index in range(50):
        world.client.network.send(connection, [f"{index};".encode()])
    world.run()

    assert "".join(world.server.told[1:]) == "".join(f"{index};" for index in range(50))


def test_a_cut_link_holds_what_is_sent_and_lets_it_through_in_order_when_it_is_mended(world: World) -> None:
    connection = world.connect()
    world.network_chaos.cut("client", "server")
    world.client.network.send(connection, [b"a"])
    world.run()
    assert world.server.told == ["accepted"]
    world.network_chaos.mend("client", "server")
    world.client.network.send(connection, [b"b"])
    world.run()
    assert world.server.told == ["accepted"]  # behind what is held, until that is sent again

    world.fabric.release()
    world.run()

    assert world.server.told == ["accepted", "a", "b"]


def test_a_link_that_was_cut_twice_is_mended_twice(world: World) -> None:
    world.network_chaos.cut("client", "server")
    world.network_chaos.cut("client", "server")
    world.network_chaos.mend("client", "server")
    assert world.network_chaos.travel_ms("client", "server") is None
    world.network_chaos.mend("client", "server")
    assert world.network_chaos.travel_ms("client", "server") is not None


def test_one_way_is_cut_and_the_other_is_not(world: World) -> None:
    world.network_chaos.cut("client", "server")

    assert world.network_chaos.travel_ms("client", "server") is None
    assert world.network_chaos.travel_ms("server", "client") is not None


def test_a_stopped_process_is_connected_to_and_finds_everything_when_it_goes_on(world: World) -> None:
    world.fabric.freeze("server")
    connection = world.connect()
    world.client.network.send(connection, [b"hello"])
    world.run()
    assert world.client.told == ["connected"]
    assert world.server.told == []

    world.fabric.thaw("server")

    assert world.server.told == ["accepted", "hello"]


def test_where_nobody_listens_a_connection_is_refused(world: World) -> None:
    world.server.network.vanish()
    world.connect()

    assert world.client.told == ["refused"]


def test_a_host_without_power_neither_answers_nor_refuses(world: World) -> None:
    world.server.network.vanish(silently=True)
    world.fabric.cut_power("server")
    world.connect()
    assert world.client.told == []

    world.fabric.restore_power("server")
    world.run()

    assert world.client.told == ["refused"]


def test_the_end_of_a_machine_is_noticed_only_when_it_is_back(world: World) -> None:
    connection = world.connect()
    world.server.network.vanish(silently=True)
    world.fabric.cut_power("server")
    world.client.network.send(connection, [b"are you there"])
    world.run()
    assert world.client.told == ["connected"]

    world.fabric.restore_power("server")
    world.run()

    assert world.client.told == ["connected", "Connection reset by peer"]


def test_a_killed_process_is_noticed_at_once(world: World) -> None:
    world.connect()
    world.server.network.vanish()
    world.run()

    assert world.client.told == ["connected", "Connection reset by peer"]


def test_chosen_connections_are_broken_at_both_ends(world: World) -> None:
    world.connect()
    broken = world.fabric.reset_connections(lambda source, target: source == "client")
    world.run()

    assert broken == 1
    assert world.client.told[-1] == world.server.told[-1] == "Connection reset by peer"
    assert world.fabric.reset_connections(lambda source, target: True) == 0
