"""Outgoing connections: every address is tried, "connection refused" is distinguished, the loop never blocks."""

import contextlib
import errno
import fcntl
import resource
import selectors
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.ports import ConnectionId
from ottla.runtime.connector import Connector
from ottla.types import Endpoint


class Loop:
    """A selector, posted actions, and the connector's reports."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.posted: deque[Callable[[], None]] = deque()
        self.connected: dict[ConnectionId, socket.socket] = {}
        self.failed: dict[ConnectionId, tuple[str, bool]] = {}
        self.connector = Connector(
            self.selector,
            self.posted.append,
            on_connected=self.connected.__setitem__,
            on_failed=lambda connection, reason, was_connection_refused: self.failed.update(
                {connection: (reason, was_connection_refused)}
            ),
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
        self.connector.close()
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
        yield sock.getsockname()[1]  # bound, but not listening


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Resolve every name to the addresses ``hosts``."""
    real = socket.getaddrinfo

    def resolve(host: str, port: int, **options: Any) -> list[Any]:
        if options.get("flags") == socket.AI_NUMERICHOST:
            return real(host, port, **options)
        return [found for each in hosts for found in real(each, port, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_address_and_name_both_connect(loop: Loop, listener: socket.socket, host: str) -> None:
    loop.connector.connect(1, Endpoint(host, listener.getsockname()[1]))
    assert not loop.connected
    assert not loop.failed
    loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[1].getpeername() == listener.getsockname()
    assert loop.connected[1].gettimeout() == 0


def test_port_without_listener_reports_connection_refused(loop: Loop, unused_port: int) -> None:
    loop.connector.connect(1, Endpoint("127.0.0.1", unused_port))
    loop.run_until(lambda: bool(loop.failed))

    assert loop.failed == {1: ("Connection refused", True)}


def test_next_address_is_tried_after_connection_refused(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.3", "127.0.0.1")
    loop.connector.connect(1, Endpoint("broker", listener.getsockname()[1]))
    loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[1].getpeername() == listener.getsockname()


def test_unresolvable_name_is_not_reported_as_connection_refused(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    loop.connector.connect(1, Endpoint("nowhere", 9092))
    loop.run_until(lambda: bool(loop.failed))

    reason, was_connection_refused = loop.failed[1]
    assert "nowhere cannot be resolved" in reason
    assert not was_connection_refused


def test_attempts_at_one_name_share_a_resolution(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.1")
    endpoint = Endpoint("broker", listener.getsockname()[1])
    for connection in (1, 2):
        loop.connector.connect(connection, endpoint)
    loop.run_until(lambda: len(loop.connected) == 2)

    assert sorted(loop.connected) == [1, 2]


@pytest.fixture
def known(loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    """Return an endpoint of a name, to which a connection was established."""
    resolve_to(monkeypatch, "127.0.0.1")
    endpoint = Endpoint("broker", listener.getsockname()[1])
    loop.connector.connect(0, endpoint)
    loop.run_until(lambda: 0 in loop.connected)
    return endpoint


def fail_to_resolve(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror(code, "failed")

    monkeypatch.setattr(socket, "getaddrinfo", fail)


def test_last_address_is_used_while_no_name_server_responds(
    loop: Loop, known: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    resolve = socket.getaddrinfo

    def hang(host: str, port: int, **options: Any) -> list[Any]:
        if not options.get("flags"):
            released.wait()
        return resolve(host, port, **options)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        loop.connector.connect(1, known)
        loop.connector.connect(2, Endpoint("unknown", known.port))
        loop.run_until(lambda: 1 in loop.connected)
        loop.connector.connect(3, known)
        loop.run_until(lambda: 3 in loop.connected)
        assert (2 in loop.connected, loop.failed) == (False, {})
    finally:
        released.set()
    loop.run_until(lambda: 2 in loop.connected)
    assert [record.getMessage() for record in caplog.records] == [
        "no name server responds for broker; connecting to its last known address"
    ]


def test_last_address_is_used_after_a_temporary_failure(
    loop: Loop, known: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_to_resolve(monkeypatch, socket.EAI_AGAIN)
    loop.connector.connect(1, known)
    loop.connector.connect(2, Endpoint("unknown", known.port))
    loop.run_until(lambda: 1 in loop.connected and 2 in loop.failed)


@pytest.mark.parametrize(
    "is_resolved_ahead", [True, False], ids=["a-name-resolved-ahead", "another-port-of-a-known-name"]
)
def test_address_of_a_host_that_was_not_connected_to_is_used(
    loop: Loop, known: Endpoint, listener: socket.socket, monkeypatch: pytest.MonkeyPatch, is_resolved_ahead: bool
) -> None:
    host = "another" if is_resolved_ahead else known.host
    if is_resolved_ahead:
        loop.connector.names.resolve_ahead(Endpoint(host, 1))
        loop.run_until(lambda: host in loop.connector.names._last_known)
    with socket.create_server(("127.0.0.1", 0)) as other:
        fail_to_resolve(monkeypatch, socket.EAI_AGAIN)
        loop.connector.connect(1, Endpoint(host, other.getsockname()[1]))
        loop.run_until(lambda: 1 in loop.connected)
        assert loop.connected[1].getpeername() == other.getsockname()


def test_few_names_are_resolved_ahead_while_no_name_server_responds(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    asked = []
    resolve = socket.getaddrinfo

    def hang(host: str, port: int, **options: Any) -> list[Any]:
        if options.get("flags"):
            return resolve(host, port, **options)
        asked.append(host)
        released.wait()
        raise socket.gaierror(socket.EAI_NONAME, "failed")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    try:
        for number in range(100):
            loop.connector.names.resolve_ahead(Endpoint(f"node-{number}", 9092))
        assert len(asked) <= 4
        loop.connector.connect(1, Endpoint("node-50", 9092))
    finally:
        released.set()
    loop.run_until(lambda: 1 in loop.failed)
    assert "node-50" in asked


def test_address_of_a_name_that_is_gone_is_used_no_more(
    loop: Loop, known: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for connection, code in ((1, socket.EAI_NONAME), (2, socket.EAI_AGAIN)):
        fail_to_resolve(monkeypatch, code)
        loop.connector.connect(connection, known)
        loop.run_until(lambda connection=connection: connection in loop.failed)  # type: ignore[misc]


def test_cancelled_attempt_reports_nothing(loop: Loop, unused_port: int) -> None:
    endpoint = Endpoint("127.0.0.1", unused_port)
    loop.connector.connect(1, endpoint)
    loop.connector.connect(2, endpoint)

    assert loop.connector.cancel(1)
    assert not loop.connector.cancel(1)
    loop.run_until(lambda: bool(loop.failed))
    assert list(loop.failed) == [2]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full queue is not silent")
def test_silent_address_is_not_tried_first_again(
    loop: Loop, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    with socket.create_server(("127.0.0.2", port), backlog=0), contextlib.ExitStack() as stack:
        for _ in range(3):  # SYNs beyond a listener's queue are dropped without a response
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.2", port))
        loop.connector.connect(1, Endpoint("broker", port))
        loop.run_until(lambda: len(loop.selector.get_map()) == 1)
        loop.connector.cancel(1)
        loop.connector.connect(2, Endpoint("broker", port))
        loop.run_until(lambda: bool(loop.connected))

    assert loop.connected[2].getpeername() == listener.getsockname()
    assert not loop.failed


def connected_socket(loop: Loop, listener: socket.socket) -> socket.socket:
    loop.connector.connect(1, Endpoint(*listener.getsockname()))
    loop.run_until(lambda: 1 in loop.connected)
    return loop.connected[1]


def test_peer_connection_uses_descriptor_above_those_of_clients(loop: Loop, listener: socket.socket) -> None:
    """Linux closes the descriptors of a killed process from the highest down: peers notice before clients do."""
    sock = connected_socket(loop, listener)
    accepted, peer = listener.accept()
    with accepted:
        accepted.sendall(b"x")
        limit = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 16 * 1024)

        assert limit - 256 <= sock.fileno() < limit
        assert (peer, sock.getblocking(), sock.get_inheritable()) == (sock.getsockname(), False, False)
        loop.selector.register(sock, selectors.EVENT_READ)
        assert loop.selector.select(3)
        assert sock.recv(2) == b"x"


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
def test_kernel_ends_connections_on_which_nothing_is_acknowledged(loop: Loop, listener: socket.socket) -> None:
    sock = connected_socket(loop, listener)

    silence_ms = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    probed_s = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert 1_000 * probed_s < silence_ms <= 3_000


@pytest.mark.parametrize("limit", [pytest.param(256, id="limit-too-low"), pytest.param(16 * 1024, id="all-in-use")])
def test_connection_keeps_descriptor_if_no_higher_one_is_free(
    loop: Loop, listener: socket.socket, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(fcntl, "fcntl", fail)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    assert connected_socket(loop, listener).getpeername() == listener.getsockname()


def test_name_fails_to_resolve_where_no_thread_can_be_started(loop: Loop, start_limit: Callable[[int], None]) -> None:
    start_limit(0)
    loop.connector.connect(1, Endpoint("kafka.test", 9092))
    loop.connector.connect(2, Endpoint("kafka.test", 9092))
    loop.run_until(lambda: len(loop.failed) == 2)

    reason, was_connection_refused = loop.failed[1]
    assert "can't start new thread" in reason
    assert not was_connection_refused


def test_name_that_cannot_be_encoded_fails_to_resolve(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(_: str, __: int, **options: Any) -> list[Any]:
        if options.get("flags") == socket.AI_NUMERICHOST:
            raise OSError(errno.EINVAL, "no address")
        raise UnicodeError("label too long")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    loop.connector.connect(1, Endpoint("x" * 100, 9092))
    loop.run_until(lambda: bool(loop.failed))

    assert "label too long" in loop.failed[1][0]
