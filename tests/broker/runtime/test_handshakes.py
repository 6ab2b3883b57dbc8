"""Handshakes: a few steps at a time off the loop, round-robin over listeners, within limits."""

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
    """Fake OpenSSL: a handshake takes ``steps`` steps, each of which takes ``cost_ms`` and sends ``output``."""

    def __init__(self, clock: ManualClock, *, cost_ms: int = 0, steps: int = 1) -> None:
        self.output = b""
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
        self.outgoing.write(self.library.output)
        self.left -= 1
        if self.left > 0:
            raise ssl.SSLWantReadError

    def getpeercert(self, *, binary_form: bool) -> None:
        return None

    def pending(self) -> int:
        return 0


class Worker:
    """Fake thread: runs steps at once, or with ``is_held`` when the test says so."""

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
    """Handshakes on a manual clock, with their results."""

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

    def make(limits: HandshakeLimits | None = None, **options: int) -> World:
        worlds.append(World(limits, **options))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def test_at_most_four_steps_are_submitted_at_once(new_world: Callable[..., World]) -> None:
    world = new_world(is_held=True)
    for connection in range(6):
        world.accept(connection)
    world.speak(*range(6))
    assert world.handshakes.next_deadline_ms() == world.clock.now_ms
    for _ in range(2):
        world.handshakes.submit_steps()
        assert (len(world.worker.submitted), world.secured) == (4, [])
        assert world.handshakes.next_deadline_ms() == 11_000, "the end of a step wakes the loop"

    world.worker.take_step()
    assert world.secured == [0]
    assert world.handshakes.next_deadline_ms() == world.clock.now_ms
    world.handshakes.submit_steps()
    while world.worker.submitted:
        world.worker.take_step()
        world.handshakes.submit_steps()
    assert world.secured == [0, 1, 2, 3, 4, 5]
    assert world.handshakes.next_deadline_ms() is None


def test_overloaded_listener_does_not_starve_another(new_world: Callable[..., World]) -> None:
    world = new_world(is_held=True)
    for connection in range(5):
        world.accept(connection, "CLIENTS")
    world.accept(9, "NODES")
    world.speak(*range(5), 9)
    world.handshakes.submit_steps()
    while world.worker.submitted:
        world.worker.take_step()

    assert world.secured == [0, 9, 1, 2]


def test_connection_closed_during_its_step_is_not_reported(
    new_world: Callable[..., World],
) -> None:
    world = new_world(is_held=True)
    world.accept(1)
    world.accept(2)
    world.speak(1, 2)
    world.handshakes.submit_steps()
    world.handshakes.remove(1)
    world.worker.take_step()
    world.worker.take_step()

    assert (world.secured, world.failed, world.waiting) == ([2], {}, [])
    assert len(world.handshakes) == 0


def test_expired_handshakes_are_closed_a_few_per_iteration(new_world: Callable[..., World]) -> None:
    world = new_world()
    for connection in range(20):
        world.accept(connection)
    world.clock.now_ms += 10_000
    closed = []
    while len(world.failed) < 20:
        assert world.handshakes.next_deadline_ms() == world.clock.now_ms
        world.handshakes.submit_steps()
        closed.append(len(world.failed))

    assert closed == [4, 8, 12, 16, 20]


def test_failed_handshakes_are_closed_a_few_per_iteration(new_world: Callable[..., World]) -> None:
    world = new_world()
    for connection in range(20):
        world.accept(connection)
        world.clients[connection].close()
        world.handshakes.on_readable(connection)

    closed = []
    for _ in range(5):
        assert world.handshakes.next_deadline_ms() == world.clock.now_ms
        world.handshakes.submit_steps()
        closed.append(len(world.failed))
    assert closed == [4, 8, 12, 16, 20]
    assert len(world.handshakes) == 0


def test_silent_handshakes_at_the_bound_are_closed_a_few_at_a_time(new_world: Callable[..., World]) -> None:
    world = new_world(HandshakeLimits(open_max=20))
    for connection in range(20):
        world.accept(connection)
    world.clock.now_ms += 1_000

    assert world.handshakes.has_capacity("SSL")
    assert list(world.failed) == list(range(4)), "the oldest"


def test_unfinished_handshake_waits_for_peer_after_each_step(new_world: Callable[..., World]) -> None:
    world = new_world(steps=2)
    world.accept(1)
    world.speak(1)
    world.handshakes.submit_steps()
    waiting = list(world.waiting)
    world.speak(1)
    world.handshakes.submit_steps()

    assert (waiting, world.secured) == ([1], [1])


@pytest.mark.parametrize(("later_ms", "failed"), [(9_999, []), (10_000, [1])], ids=["just-in-time", "at-the-deadline"])
def test_handshake_ends_at_its_deadline_however_active_the_peer(
    new_world: Callable[..., World], later_ms: int, failed: list[int]
) -> None:
    world = new_world(steps=100)
    world.accept(1)
    world.speak(1)
    world.handshakes.submit_steps()
    deadline_ms = world.handshakes.next_deadline_ms()
    world.clock.now_ms += later_ms
    world.handshakes.submit_steps()

    assert deadline_ms == 11_000
    assert list(world.failed) == failed
    assert world.metrics.open_handshakes == 1 - len(failed)


@pytest.mark.parametrize(("silent_ms", "has_capacity"), [(999, False), (1_000, True)], ids=["patience", "no-more"])
def test_only_silent_handshakes_are_closed_at_the_bound(
    new_world: Callable[..., World], silent_ms: int, has_capacity: bool
) -> None:
    world = new_world(HandshakeLimits(open_max=2), steps=2)
    world.accept(1)
    world.accept(2)
    world.clock.now_ms += silent_ms
    world.speak(2)

    assert world.handshakes.has_capacity("NODES")
    assert world.handshakes.has_capacity("SSL") == has_capacity
    assert list(world.failed) == ([1] if has_capacity else [])


@pytest.mark.parametrize(
    ("output", "has_capacity"), [(b"", True), (b"hello", False)], ids=["bytes-alone", "with-responses"]
)
def test_received_bytes_without_output_count_as_silence(
    new_world: Callable[..., World], output: bytes, has_capacity: bool
) -> None:
    world = new_world(HandshakeLimits(open_max=2), steps=100)
    world.library.output = output
    world.accept(1)
    world.accept(2)
    for _ in range(2):
        world.clock.now_ms += 500
        world.speak(1, 2)
        while not all(connection in world.waiting for connection in (1, 2)):
            world.handshakes.submit_steps()
        world.waiting.clear()

    assert world.handshakes.has_capacity("SSL") == has_capacity
    assert list(world.failed) == ([1, 2] if has_capacity else [])


def test_listener_has_capacity_one_below_the_bound(new_world: Callable[..., World]) -> None:
    world = new_world(HandshakeLimits(open_max=2))
    world.accept(1)

    assert world.handshakes.has_capacity("SSL")
    world.accept(2)
    assert not world.handshakes.has_capacity("SSL")
    world.handshakes.remove(1)
    assert world.handshakes.has_capacity("SSL")


def test_closed_connection_in_the_queue_takes_no_step(new_world: Callable[..., World]) -> None:
    world = new_world()
    world.accept(1)
    world.accept(2)
    world.speak(1, 2)
    world.handshakes.remove(1)
    world.handshakes.submit_steps()

    assert world.secured == [2]
    assert len(world.handshakes) == 0


def test_plaintext_listener_uses_no_tls_in_either_direction(new_world: Callable[..., World]) -> None:
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
        world.handshakes.submit_steps()
    world.clock.now_ms += 1_000
    world.accept(3)
    world.clients[3].close()
    world.handshakes.on_readable(3)
    world.handshakes.submit_steps()

    assert [record.message for record in caplog.records] == [
        "TLS handshake with 10.0.0.1:4711 on SSL failed: the peer hung up during the TLS handshake (1 failed so far)",
        "TLS handshake with 10.0.0.1:4711 on SSL failed: the peer hung up during the TLS handshake (4 failed so far)",
    ]
    assert world.metrics.failed_handshakes["SSL"] == 4


def test_handshake_fails_if_no_thread_can_be_started(
    new_world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = new_world()

    def submit(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(world.worker, "submit", submit)
    for connection in range(6):
        world.accept(connection)
        world.speak(connection)
    world.handshakes.submit_steps()
    world.handshakes.submit_steps()
    monkeypatch.undo()
    world.accept(7)
    world.speak(7)
    world.handshakes.submit_steps()

    assert sorted(world.failed) == list(range(6))
    assert "no thread can be started for it: can't start new thread" in world.failed[0]
    assert world.secured == [7]
