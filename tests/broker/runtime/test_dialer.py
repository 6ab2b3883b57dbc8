"""Dialling: every address of a name is tried, refused is told apart from everything else, nothing blocks the loop."""

import contextlib
import errno
import fcntl
import resource
import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.ports import ConnectionId
from ottla.runtime.dialer import Dialer
from ottla.types import Endpoint


class Loop:
    """A selector, what was posted to it, and what the dialer reported."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.posted: deque[Callable[[], None]] = deque()
        self.connected: dict[ConnectionId, socket.socket] = {}
        self.failed: dict[ConnectionId, tuple[str, bool]] = {}
        self.dialer = Dialer(
            self.selector,
            self.posted.append,
            on_connected=self.connected.__setitem__,
            on_failed=lambda connection, reason, was_refused: self.failed.update({connection: (reason, was_refused)}),
        )

    def run_until(self, condition: Callable[[], bool]) -> None:
        for _ in range(3_000):
            if condition():
                return
            for key, events in self.selector.select(0.01):
                key.data(events)
            while self.posted:
                self.posted.popleft()()
        raise AssertionError("nothing came of it")

    def close(self) -> None:
        self.dialer.close()
        for sock in self.connected.values():
            sock.close()
        self.selector.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


@pytest.fixture
def unused_port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]  # bound, but nobody listens


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Let every name have the addresses ``hosts``."""
    real = socket.getaddrinfo

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        if options.get("flags") == socket.AI_NUMERICHOST:
            return real(host, port, **options)
        return [found for each in hosts for found in real(each, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_address_and_a_name_are_both_reached(loop: Loop, listener: socket.socket, host: str) -> None:
    loop.dialer.dial(1, Endpoint(host, listener.getsockname()[1]))
    assert not loop.connected
    assert not loop.failed
    loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[1].getpeername() == listener.getsockname()
    assert loop.connected[1].gettimeout() == 0


def test_a_port_where_nobody_listens_is_refused(loop: Loop, unused_port: int) -> None:
    loop.dialer.dial(1, Endpoint("127.0.0.1", unused_port))
    loop.run_until(lambda: bool(loop.failed))

    assert loop.failed == {1: ("Connection refused", True)}


def test_the_next_address_is_tried_where_one_refuses(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.1")
    loop.dialer.dial(1, Endpoint("broker", listener.getsockname()[1]))
    loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[1].getpeername() == listener.getsockname()


def test_a_name_without_an_address_is_no_refusal(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    loop.dialer.dial(1, Endpoint("nowhere", 9092))
    loop.run_until(lambda: bool(loop.failed))

    reason, was_refused = loop.failed[1]
    assert "nowhere cannot be resolved" in reason
    assert not was_refused


def test_attempts_at_one_name_share_a_look_up(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.1")
    endpoint = Endpoint("broker", listener.getsockname()[1])
    for connection in (1, 2):
        loop.dialer.dial(connection, endpoint)
    loop.run_until(lambda: len(loop.connected) == 2)

    assert sorted(loop.connected) == [1, 2]


def test_a_cancelled_attempt_reports_nothing(loop: Loop, unused_port: int) -> None:
    endpoint = Endpoint("127.0.0.1", unused_port)
    loop.dialer.dial(1, endpoint)
    loop.dialer.dial(2, endpoint)

    assert loop.dialer.cancel(1)
    assert not loop.dialer.cancel(1)
    loop.run_until(lambda: bool(loop.failed))
    assert list(loop.failed) == [2]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue is not silent")
def test_an_address_that_keeps_silent_is_not_the_first_to_be_tried_again(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    with socket.create_server(("127.0.0.2", port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(3):  # what does not fit into the queue of a listener is dropped without an answer
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))
        loop.dialer.dial(1, Endpoint("broker", port))
        loop.run_until(lambda: len(loop.selector.get_map()) == 1)
        loop.dialer.cancel(1)
        loop.dialer.dial(2, Endpoint("broker", port))
        loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[2].getpeername() == listener.getsockname()
    assert not loop.failed


def dialled(loop: Loop, listener: socket.socket) -> socket.socket:
    loop.dialer.dial(1, Endpoint(*listener.getsockname()))
    loop.run_until(lambda: 1 in loop.connected)
    return loop.connected[1]


def test_a_connection_to_another_node_is_above_the_descriptors_of_clients(loop: Loop, listener: socket.socket) -> None:
    """So that a process that is killed ends it before those: Linux begins with the highest."""
    sock = dialled(loop, listener)
    accepted, peer = listener.accept()
    with accepted:
        accepted.sendall(b"x")
        limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 16 * 1024)

        assert limit - 256 <= sock.fileno() < limit
        assert (peer, sock.getblocking(), sock.get_inheritable()) == (sock.getsockname(), False, False)
        loop.selector.register(sock, selectors.EVENT_READ)
        assert loop.selector.select(3)
        assert sock.recv(2) == b"x"


@pytest.mark.parametrize("limit", [pytest.param(256, id="limit-too-low"), pytest.param(16 * 1024, id="all-in-use")])
def test_without_room_above_the_connection_stays_where_it_is(
    loop: Loop, listener: socket.socket, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    assert dialled(loop, listener).getpeername() == listener.getsockname()


def test_name_fails_to_resolve_where_no_thread_can_be_started(loop: Loop, start_limit: Callable[[int], None]) -> None:
    start_limit(0)
    loop.dialer.dial(1, Endpoint("kafka.test", 9092))
    loop.dialer.dial(2, Endpoint("kafka.test", 9092))
    loop.run_until(lambda: len(loop.failed) == 2)

    reason, was_refused = loop.failed[1]
    assert "can't start new thread" in reason
    assert not was_refused


def test_name_that_cannot_be_encoded_fails_to_resolve(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(_: str, __: int, **options: Any) -> list[Any]:
        if options.get("flags") == socket.AI_NUMERICHOST:
            raise OSError(errno.EINVAL, "no address")
        raise UnicodeError("label too long")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    loop.dialer.dial(1, Endpoint("x" * 100, 9092))
    loop.run_until(lambda: bool(loop.failed))

    assert "label too long" in loop.failed[1][0]
