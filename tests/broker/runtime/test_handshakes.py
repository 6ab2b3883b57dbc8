"""Handshakes take turns: a few steps at a time beside the loop, one listener after the other, within their limits."""

import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.metrics.tls import TlsMetrics
from ottla.runtime.handshakes import HandshakeLimits, Handshakes
from ottla.types import Endpoint

PEER = Endpoint("10.0.0.1", 4711)


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms


class Library:
    """Stands for OpenSSL: each step takes ``cost_ms`` and says ``answer``, and a handshake so many ``steps``."""

    def __init__(self, clock: ManualClock, *, cost_ms: int = 0, steps: int = 1) -> None:
        self.answer = b""
        self.clock = clock
        self.cost_ms = cost_ms
        self.steps = steps

    def as_server(self, listener: str) -> Any:
        return None if listener == "PLAINTEXT" else self

    as_client = as_server

    def wrap_bio(self, _: object, outgoing: ssl.MemoryBIO, **__: object) -> "Connection":
        return Connection(self, outgoing)


class Connection:
    server_side = True

    def __init__(self, library: Library, outgoing: ssl.MemoryBIO) -> None:
        self.library = library
        self.outgoing = outgoing
        self.left = library.steps

    def do_handshake(self) -> None:
        self.library.clock.now_ms += self.library.cost_ms
        self.outgoing.write(self.library.answer)
        self.left -= 1
        if self.left > 0:
            raise ssl.SSLWantReadError

    def getpeercert(self, *, binary_form: bool) -> None:
        return None

    def pending(self) -> int:
        return 0


class Worker:
    """Stands for the thread: takes steps at once, or where ``is_held`` when the test says."""

    def __init__(self, *, is_held: bool) -> None:
        self.is_held = is_held
        self.submitted: list[Callable[[], None]] = []

    def submit(self, work: Callable[[], None]) -> None:
        self.submitted.append(work)
        if not self.is_held:
            self.take_step()

    def take_step(self) -> None:
        self.submitted.pop(0)()

    def close(self) -> None:
        pass


class World:
    """Handshakes on a manual clock, and what became of them."""

    def __init__(
        self, limits: HandshakeLimits | None = None, *, cost_ms: int = 0, steps: int = 1, is_held: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.metrics = TlsMetrics()
        self.library = Library(self.clock, cost_ms=cost_ms, steps=steps)
        self.worker = Worker(is_held=is_held)
        self.handshakes = Handshakes(self.clock, self.library, self.metrics, limits, self.worker)
        self.secured: list[int] = []
        self.failed: dict[int, str] = {}
        self.waiting: list[int] = []
        self.handshakes.report_to(
            post=lambda action: action(),
            on_secured=lambda connection, subject, is_outgoing: self.secured.append(connection),
            on_failed=self.failed.__setitem__,
            on_waiting=self.waiting.append,
        )
        self.clients: dict[int, socket.socket] = {}
        self._sockets: list[socket.socket] = []

    def accept(self, connection: int, listener: str = "SSL") -> None:
        here, self.clients[connection] = socket.socketpair()
        here.setblocking(False)
        self._sockets += [here, self.clients[connection]]
        self.handshakes.accept(connection, here, listener=listener, peer=PEER)

    def speak(self, *connections: int) -> None:
        for connection in connections:
            self.clients[connection].send(b"\x16\x03\x01")
            self.handshakes.on_readable(connection)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()


@pytest.fixture
def new_world() -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(limits: HandshakeLimits | None = None, **said: int) -> World:
        worlds.append(World(limits, **said))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def test_four_steps_are_in_hand_at_once_and_the_others_wait(new_world: Callable[..., World]) -> None:
    world = new_world(is_held=True)
    for connection in range(6):
        world.accept(connection)
    world.speak(*range(6))
    assert world.handshakes.next_deadline_ms() == world.clock.now_ms
    for _ in range(2):
        world.handshakes.turn()
        assert (len(world.worker.submitted), world.secured) == (4, [])
        assert world.handshakes.next_deadline_ms() == 11_000, "what ends a step turns the loop"

    world.worker.take_step()
    assert world.secured == [0]
    assert world.handshakes.next_deadline_ms() == world.clock.now_ms
    world.handshakes.turn()
    while world.worker.submitted:
        world.worker.take_step()
        world.handshakes.turn()
    assert world.secured == [0, 1, 2, 3, 4, 5]
    assert world.handshakes.next_deadline_ms() is None


def test_a_crowd_at_one_listener_does_not_keep_another_from_its_turn(new_world: Callable[..., World]) -> None:
    world = new_world(is_held=True)
    for connection in range(5):
        world.accept(connection, "CLIENTS")
    world.accept(9, "NODES")
    world.speak(*range(5), 9)
    world.handshakes.turn()
    while world.worker.submitted:
        world.worker.take_step()

    assert world.secured == [0, 9, 1, 2]


def test_a_connection_that_is_closed_while_its_step_is_in_hand_is_heard_of_no_more(
    new_world: Callable[..., World],
) -> None:
    world = new_world(is_held=True)
    world.accept(1)
    world.accept(2)
    world.speak(1, 2)
    world.handshakes.turn()
    world.handshakes.forget(1)
    world.worker.take_step()
    world.worker.take_step()

    assert (world.secured, world.failed, world.waiting) == ([2], {}, [])
    assert len(world.handshakes) == 0


def test_of_a_crowd_that_is_late_some_are_closed_in_a_turn(new_world: Callable[..., World]) -> None:
    world = new_world()
    for connection in range(20):
        world.accept(connection)
    world.clock.now_ms += 10_000
    closed = []
    while len(world.failed) < 20:
        assert world.handshakes.next_deadline_ms() == world.clock.now_ms
        world.handshakes.turn()
        closed.append(len(world.failed))

    assert closed == [4, 8, 12, 16, 20]


def test_of_a_crowd_that_hangs_up_some_are_closed_in_a_turn(new_world: Callable[..., World]) -> None:
    world = new_world()
    for connection in range(20):
        world.accept(connection)
        world.clients[connection].close()
        world.handshakes.on_readable(connection)

    closed = []
    for _ in range(5):
        assert world.handshakes.next_deadline_ms() == world.clock.now_ms
        world.handshakes.turn()
        closed.append(len(world.failed))
    assert closed == [4, 8, 12, 16, 20]
    assert len(world.handshakes) == 0


def test_room_is_made_for_some_at_a_time(new_world: Callable[..., World]) -> None:
    world = new_world(HandshakeLimits(open_max=20))
    for connection in range(20):
        world.accept(connection)
    world.clock.now_ms += 1_000

    assert world.handshakes.has_room("SSL")
    assert list(world.failed) == list(range(4)), "those that came first"


def test_a_step_that_is_not_the_last_waits_for_the_peer_again(new_world: Callable[..., World]) -> None:
    world = new_world(steps=2)
    world.accept(1)
    world.speak(1)
    world.handshakes.turn()
    waiting = list(world.waiting)
    world.speak(1)
    world.handshakes.turn()

    assert (waiting, world.secured) == ([1], [1])


@pytest.mark.parametrize(("later_ms", "failed"), [(9_999, []), (10_000, [1])], ids=["just-in-time", "at-the-deadline"])
def test_a_handshake_ends_at_its_deadline_however_busy_the_peer_was(
    new_world: Callable[..., World], later_ms: int, failed: list[int]
) -> None:
    world = new_world(steps=100)
    world.accept(1)
    world.speak(1)
    world.handshakes.turn()
    deadline_ms = world.handshakes.next_deadline_ms()
    world.clock.now_ms += later_ms
    world.handshakes.turn()

    assert deadline_ms == 11_000
    assert list(world.failed) == failed
    assert world.metrics.open_handshakes == 1 - len(failed)


@pytest.mark.parametrize(("silent_ms", "has_room"), [(999, False), (1_000, True)], ids=["patience", "no-more"])
def test_at_the_bound_the_silent_make_room_and_nobody_else_does(
    new_world: Callable[..., World], silent_ms: int, has_room: bool
) -> None:
    world = new_world(HandshakeLimits(open_max=2), steps=2)
    world.accept(1)
    world.accept(2)
    world.clock.now_ms += silent_ms
    world.speak(2)

    assert world.handshakes.has_room("NODES")
    assert world.handshakes.has_room("SSL") == has_room
    assert list(world.failed) == ([1] if has_room else [])


@pytest.mark.parametrize(("answer", "has_room"), [(b"", True), (b"hello", False)], ids=["bytes-alone", "with-answers"])
def test_at_the_bound_only_who_gets_answers_is_not_silent(
    new_world: Callable[..., World], answer: bytes, has_room: bool
) -> None:
    world = new_world(HandshakeLimits(open_max=2), steps=100)
    world.library.answer = answer
    world.accept(1)
    world.accept(2)
    for _ in range(2):
        world.clock.now_ms += 500
        world.speak(1, 2)
        while not all(connection in world.waiting for connection in (1, 2)):
            world.handshakes.turn()
        world.waiting.clear()

    assert world.handshakes.has_room("SSL") == has_room
    assert list(world.failed) == ([1, 2] if has_room else [])


def test_one_below_the_bound_there_is_room(new_world: Callable[..., World]) -> None:
    world = new_world(HandshakeLimits(open_max=2))
    world.accept(1)

    assert world.handshakes.has_room("SSL")
    world.accept(2)
    assert not world.handshakes.has_room("SSL")
    world.handshakes.forget(1)
    assert world.handshakes.has_room("SSL")


def test_one_that_is_closed_while_it_waits_for_its_turn_has_none(new_world: Callable[..., World]) -> None:
    world = new_world()
    world.accept(1)
    world.accept(2)
    world.speak(1, 2)
    world.handshakes.forget(1)
    world.handshakes.turn()

    assert world.secured == [2]
    assert len(world.handshakes) == 0


def test_a_listener_in_the_clear_is_neither_secured_nor_dialled_so(new_world: Callable[..., World]) -> None:
    world = new_world()
    world.handshakes.expect(1, PEER, "PLAINTEXT")
    with socket.socket() as sock:
        assert world.handshakes.connect(1, sock) is None
    assert not world.handshakes.secures("PLAINTEXT")


def test_failures_within_a_second_share_a_line(
    new_world: Callable[..., World], caplog: pytest.LogCaptureFixture
) -> None:
    world = new_world()
    for connection in range(3):
        world.accept(connection)
        world.clients[connection].close()
        world.handshakes.on_readable(connection)
        world.handshakes.turn()
    world.clock.now_ms += 1_000
    world.accept(3)
    world.clients[3].close()
    world.handshakes.on_readable(3)
    world.handshakes.turn()

    assert [record.message for record in caplog.records] == [
        "TLS handshake with 10.0.0.1:4711 on SSL failed: the peer hung up during the TLS handshake (1 failed so far)",
        "TLS handshake with 10.0.0.1:4711 on SSL failed: the peer hung up during the TLS handshake (4 failed so far)",
    ]
    assert world.metrics.failed_handshakes["SSL"] == 4


def test_handshake_fails_where_no_thread_can_be_started(
    new_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()

    def submit(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(world.worker, "submit", submit)
    for connection in range(6):
        world.accept(connection)
        world.speak(connection)
    world.handshakes.turn()
    world.handshakes.turn()
    monkeypatch.undo()
    world.accept(7)
    world.speak(7)
    world.handshakes.turn()

    assert sorted(world.failed) == list(range(6))
    assert "no thread can be started for it: can't start new thread" in world.failed[0]
    assert world.secured == [7]
