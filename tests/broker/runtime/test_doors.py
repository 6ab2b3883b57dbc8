"""A door that is held lets nobody in until its time has passed; who has knocked meanwhile is let in then."""

import errno
import selectors
import socket
from collections.abc import Iterator

import pytest

from ottla.metrics.network import NetworkMetrics
from ottla.runtime.doors import RETRY_ACCEPT_MS, Doors
from ottla.runtime.link import SocketOptions
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Endpoint


class Place:
    """Two doors and a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.selector = selectors.DefaultSelector()
        self.let_in: list[tuple[socket.socket, str]] = []
        self.has_room = True
        self.hold_after_each_ms = 0
        self.cost_ms = 0
        self.metrics = NetworkMetrics()
        self.doors = Doors(
            selector=self.selector,
            clock=self.clock,
            options=SocketOptions(),
            has_room=lambda _: self.has_room,
            metrics=self.metrics,
            on_accepted=self._on_accepted,
        )
        self.ports = {name: self.doors.open(name, "127.0.0.1", 0) for name in ("FRONT", "BACK")}
        self.visitors: list[socket.socket] = []

    def _on_accepted(self, sock: socket.socket, peer: Endpoint, name: str) -> None:
        assert peer.host == "127.0.0.1"
        self.let_in.append((sock, name))
        self.clock.advance(self.cost_ms)
        if self.hold_after_each_ms:
            self.doors.hold(name, self.hold_after_each_ms)

    def knock(self, name: str) -> None:
        self.visitors.append(socket.create_connection(("127.0.0.1", self.ports[name])))

    def turn(self) -> list[str]:
        """Return at which doors somebody was let in."""
        before = len(self.let_in)
        self.doors.turn()
        for key, events in self.selector.select(0):
            key.data(events)
        return [name for _, name in self.let_in[before:]]


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.doors.close()
    made.selector.close()
    for sock in [*made.visitors, *(sock for sock, _ in made.let_in)]:
        sock.close()


def test_a_held_door_opens_when_its_time_has_passed(place: Place) -> None:
    place.doors.hold("FRONT", 100)
    place.doors.hold("FRONT", 50)
    place.knock("FRONT")
    place.knock("BACK")

    assert place.turn() == ["BACK"]
    assert place.doors.next_deadline_ms() == 100
    place.clock.advance(99)
    assert place.turn() == []
    place.clock.advance(1)
    assert place.turn() == ["FRONT"]
    assert place.doors.next_deadline_ms() is None


def test_a_door_may_be_held_by_whoever_has_just_come_in(place: Place) -> None:
    place.hold_after_each_ms = 500
    for _ in range(3):
        place.knock("FRONT")

    assert place.turn() == ["FRONT"]
    assert place.turn() == []
    place.clock.advance(500)
    assert place.turn() == ["FRONT"]


def test_without_room_a_door_is_tried_again_a_little_later(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.has_room = False
    place.knock("FRONT")
    for _ in range(3):
        assert place.turn() == []
        place.clock.advance(RETRY_ACCEPT_MS)
    place.has_room = True

    assert place.turn() == ["FRONT"]
    assert [message.split(":")[0] for message in caplog.messages] == ["cannot accept a connection on listener FRONT"]
    assert place.metrics.accept_pauses == {"FRONT": 3}


@pytest.mark.parametrize(("cost_ms", "turns"), [(0, [8, 2]), (1, [1] * 10)], ids=["quick", "longer-than-a-share"])
def test_others_have_their_turn_between_so_many_visitors(place: Place, cost_ms: int, turns: list[int]) -> None:
    place.cost_ms = cost_ms
    for _ in range(10):
        place.knock("FRONT")

    assert [len(place.turn()) for _ in turns] == turns


def test_who_is_let_in_is_sent_small_answers_at_once(place: Place) -> None:
    place.knock("FRONT")
    place.turn()

    ((sock, _),) = place.let_in
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="there is nothing to lack")
def test_a_door_opens_where_the_system_does_not_bound_what_it_takes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "TCP_NOTSENT_LOWAT", 9_999)
    place.ports["FRONT"] = place.doors.open("NEW", "127.0.0.1", 0)
    place.knock("FRONT")

    assert place.turn() == ["NEW"]


def test_listener_that_cannot_be_watched_again_is_tried_later(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.doors.hold("FRONT", 10)
    place.knock("FRONT")
    place.clock.advance(10)

    def register(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(place.selector, "register", register)
        assert place.turn() == []
    assert place.doors.next_deadline_ms() == place.clock.monotonic_ms() + RETRY_ACCEPT_MS
    place.clock.advance(RETRY_ACCEPT_MS)

    assert place.turn() == ["FRONT"]
    assert place.metrics.accept_pauses["FRONT"] == 1
