"""A paused listener accepts no connection until its pause ends, and then accepts those that queued meanwhile."""

import errno
import selectors
import socket
from collections.abc import Iterator

import pytest

from ottla.metrics.network import NetworkMetrics
from ottla.runtime.acceptor import RETRY_ACCEPT_MS, Acceptor
from ottla.runtime.link import SocketOptions
from ottla.simulator.world.clock import SimulatedClock
from ottla.types import Endpoint


class Listeners:
    """Two listeners and a clock that the test advances."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.selector = selectors.DefaultSelector()
        self.accepted: list[tuple[socket.socket, str]] = []
        self.has_capacity = True
        self.pause_after_each_ms = 0
        self.cost_ms = 0
        self.metrics = NetworkMetrics()
        self.acceptor = Acceptor(
            selector=self.selector,
            clock=self.clock,
            options=SocketOptions(),
            has_capacity=lambda _: self.has_capacity,
            metrics=self.metrics,
            on_accepted=self._on_accepted,
        )
        self.ports = {name: self.acceptor.open(name, "127.0.0.1", 0) for name in ("FRONT", "BACK")}
        self.clients: list[socket.socket] = []

    def _on_accepted(self, sock: socket.socket, peer: Endpoint, name: str) -> None:
        assert peer.host == "127.0.0.1"
        self.accepted.append((sock, name))
        self.clock.advance(self.cost_ms)
        if self.pause_after_each_ms:
            self.acceptor.pause(name, self.pause_after_each_ms)

    def connect(self, name: str) -> None:
        self.clients.append(socket.create_connection(("127.0.0.1", self.ports[name])))

    def run_iteration(self) -> list[str]:
        """Run one iteration; return the listener of each accepted connection."""
        before = len(self.accepted)
        self.acceptor.resume_due()
        for key, events in self.selector.select(0):
            key.data(events)
        return [name for _, name in self.accepted[before:]]


@pytest.fixture
def listeners() -> Iterator[Listeners]:
    created = Listeners()
    yield created
    created.acceptor.close()
    created.selector.close()
    for sock in [*created.clients, *(sock for sock, _ in created.accepted)]:
        sock.close()


def test_paused_listener_resumes_after_its_longest_pause(listeners: Listeners) -> None:
    listeners.acceptor.pause("FRONT", 100)
    listeners.acceptor.pause("FRONT", 50)
    listeners.connect("FRONT")
    listeners.connect("BACK")

    assert listeners.run_iteration() == ["BACK"]
    assert listeners.acceptor.next_deadline_ms() == 100
    listeners.clock.advance(99)
    assert listeners.run_iteration() == []
    listeners.clock.advance(1)
    assert listeners.run_iteration() == ["FRONT"]
    assert listeners.acceptor.next_deadline_ms() is None


def test_listener_may_be_paused_by_the_connection_just_accepted(listeners: Listeners) -> None:
    listeners.pause_after_each_ms = 500
    for _ in range(3):
        listeners.connect("FRONT")

    assert listeners.run_iteration() == ["FRONT"]
    assert listeners.run_iteration() == []
    listeners.clock.advance(500)
    assert listeners.run_iteration() == ["FRONT"]


def test_full_listener_retries_accept_after_backoff(listeners: Listeners, caplog: pytest.LogCaptureFixture) -> None:
    listeners.has_capacity = False
    listeners.connect("FRONT")
    for _ in range(3):
        assert listeners.run_iteration() == []
        listeners.clock.advance(RETRY_ACCEPT_MS)
    listeners.has_capacity = True

    assert listeners.run_iteration() == ["FRONT"]
    assert [message.split(":")[0] for message in caplog.messages] == ["cannot accept a connection on listener FRONT"]
    assert listeners.metrics.accept_pauses == {"FRONT": 3}


@pytest.mark.parametrize(("cost_ms", "counts"), [(0, [8, 2]), (1, [1] * 10)], ids=["quick", "longer-than-a-slice"])
def test_accepts_per_iteration_are_bounded_by_count_and_time(
    listeners: Listeners, cost_ms: int, counts: list[int]
) -> None:
    listeners.cost_ms = cost_ms
    for _ in range(10):
        listeners.connect("FRONT")

    assert [len(listeners.run_iteration()) for _ in counts] == counts


def test_accepted_connection_has_tcp_nodelay(listeners: Listeners) -> None:
    listeners.connect("FRONT")
    listeners.run_iteration()

    ((sock, _),) = listeners.accepted
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system has no such option")
def test_listener_opens_without_support_for_notsent_lowat(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "TCP_NOTSENT_LOWAT", 9_999)
    listeners.ports["FRONT"] = listeners.acceptor.open("NEW", "127.0.0.1", 0)
    listeners.connect("FRONT")

    assert listeners.run_iteration() == ["NEW"]


def test_listener_that_cannot_be_registered_again_is_retried_later(
    listeners: Listeners, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners.acceptor.pause("FRONT", 10)
    listeners.connect("FRONT")
    listeners.clock.advance(10)

    def register(*_: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr(listeners.selector, "register", register)
        assert listeners.run_iteration() == []
    assert listeners.acceptor.next_deadline_ms() == listeners.clock.monotonic_ms() + RETRY_ACCEPT_MS
    listeners.clock.advance(RETRY_ACCEPT_MS)

    assert listeners.run_iteration() == ["FRONT"]
    assert listeners.metrics.accept_pauses["FRONT"] == 1
