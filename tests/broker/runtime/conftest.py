"""Reactor that serves lines, plaintext or under TLS, and certificates for it."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.config.tls_settings import TlsSettings, read_tls_settings
from ottla.metrics.network import NetworkMetrics
from ottla.metrics.tls import TlsMetrics
from ottla.ports import Chunk, Clock, ConnectionId
from ottla.runtime.clock import SystemClock
from ottla.runtime.handshakes import HandshakeLimits, Handshakes
from ottla.runtime.link import SocketOptions
from ottla.runtime.reactor import Reactor
from ottla.tls.contexts import make_contexts
from ottla.types import Endpoint

LINE = b"\n"


class LineCore:
    """Core that responds to every line with the result of ``respond``, and records its events."""

    def __init__(self, reactor: Reactor, respond: Callable[[bytes], list[Chunk]]) -> None:
        self.reactor = reactor
        self.respond = respond
        self.events: list[str] = []
        self.accepts = True
        self.local_address: Endpoint | None = None
        self.rest_is_served = False
        self.greeting = b""
        self.deadline_ms: int | None = None
        self.ticks_after_deadline = 0
        self._buffer = memoryview(bytearray(1024))
        self._partial: dict[ConnectionId, bytes] = {}

    def accepted(
        self, connection: ConnectionId, *, listener: str, peer: Endpoint, local_address: Endpoint | None
    ) -> bool:
        self.events.append(f"accepted on {listener}")
        self.local_address = local_address
        self._partial[connection] = b""
        return self.accepts

    def secured(self, connection: ConnectionId, subject: str | None) -> None:
        self.events.append(f"secured for {subject}")

    def connected(self, connection: ConnectionId) -> None:
        self.events.append("connected")
        self._partial[connection] = b""
        if self.greeting:
            self.reactor.send(connection, [self.greeting])

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._buffer

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        *lines, rest = (self._partial[connection] + bytes(self._buffer[:size_bytes])).split(LINE)
        self._partial[connection] = rest
        for line in lines:
            if line == b"bye":
                self.reactor.close_connection(connection)
            elif line == b"pause":
                self.reactor.pause_reading(connection)
                self.events.append("paused")
            elif line == b"go on":
                self.reactor.resume_reading(connection - 1)
            elif not self.reactor.send(connection, self.respond(line)):
                self.events.append("back-pressured")

    def drained(self, connection: ConnectionId) -> None:
        self.events.append("drained")

    def serves_rest(self, connection: ConnectionId) -> bool:
        self.events.append("hung up")
        return self.rest_is_served

    def closed(self, connection: ConnectionId, reason: str, *, was_connection_refused: bool = False) -> None:
        self.events.append(f"closed: {reason}{' (refused)' if was_connection_refused else ''}")

    def tick(self) -> None:
        if self.deadline_ms is not None and self.reactor._clock.monotonic_ms() >= self.deadline_ms:
            self.ticks_after_deadline += 1
            self.deadline_ms = None
            self.reactor.stop()

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms


class Secured:
    """TLS contexts of one listener, from settings as in ``server.properties``."""

    def __init__(self, authority: Any, **overrides: str) -> None:
        self.authority = authority
        self.use(authority.issue(), **overrides)

    def use(self, issued: Any, **overrides: str) -> None:
        """Secure new connections with another certificate."""
        self.made = make_contexts(self.settings(issued, **overrides), opened=True)

    def settings(self, issued: Any, **overrides: str) -> TlsSettings:
        properties = {
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.keystore.key": issued.key,
            "ssl.keystore.certificate.chain": issued.chain,
            "ssl.truststore.certificates": self.authority.pem,
        }
        return read_tls_settings(
            properties | {f"ssl.{key.replace('_', '.')}": text for key, text in overrides.items()}, "LINES"
        )

    def as_server(self, listener: str) -> ssl.SSLContext | None:
        return self.made.server

    def as_client(self, listener: str) -> ssl.SSLContext | None:
        return self.made.client

    def client_context(self, issued: Any = None, *, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """Return the context of a test's client; ``issued``: the certificate that it presents."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        if issued is not None:
            self.load(context, issued)
        return context

    @staticmethod
    def load(context: ssl.SSLContext, issued: Any) -> None:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:
            file.write(issued.both.encode())
            file.flush()
            context.load_cert_chain(file.name)


class Served:
    """Reactor on a thread of its own; under TLS if ``secured`` is given."""

    def __init__(
        self,
        respond: Callable[[bytes], list[Chunk]],
        secured: Secured | None = None,
        limits: HandshakeLimits | None = None,
        clock: Clock | None = None,
        options: SocketOptions | None = None,
    ) -> None:
        self.clock = clock or SystemClock()
        self.options = options
        self.network_metrics = NetworkMetrics()
        self.secured = secured
        self.metrics = TlsMetrics()
        self.limits = limits
        self.reactor = self.new_reactor()
        self.core = LineCore(self.reactor, respond)
        self.port = self.reactor.listen("LINES", "127.0.0.1", 0)
        self.thread = threading.Thread(target=self.reactor.run, args=(self.core,))

    def new_reactor(self) -> Reactor:
        """Return a reactor with the same listener settings, which is not running."""
        handshakes = None if self.secured is None else Handshakes(self.clock, self.secured, self.metrics, self.limits)
        return Reactor(self.clock, self.options, handshakes, self.network_metrics)

    def __enter__(self) -> "Served":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.reactor.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the loop did not stop"
        self.reactor.close()

    def wait_for(self, event: str) -> None:
        self.wait_until(lambda: event in self.core.events, repr(event))

    def wait_until(self, claim: Callable[[], bool], what: str = "what is waited for") -> None:
        deadline = time.monotonic() + 30
        while not claim():
            assert time.monotonic() < deadline, f"never came true: {what}; {self.core.events}"
            time.sleep(0.001)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block the loop, so that everything sent meanwhile arrives in one iteration."""
        is_held, may_go_on = threading.Event(), threading.Event()
        self.reactor.post(lambda: (is_held.set(), may_go_on.wait()))
        assert is_held.wait(30)
        try:
            yield
        finally:
            may_go_on.set()

    def connect(self, context: ssl.SSLContext | None = None) -> socket.socket:
        """Return a connection whose handshake, if any, is complete."""
        sock = self.connect_plain()
        if self.secured is None:
            return sock
        context = context or self.secured.client_context()
        # As Java's and librdkafka's: what ends without close_notify ends all the same.
        return context.wrap_socket(sock, server_hostname="localhost", suppress_ragged_eofs=True)

    def connect_plain(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


@pytest.fixture
def start_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that limits how many more threads can be started, as a limit of processes does."""
    real = threading.Thread.start

    def limit(count: int) -> None:
        started: list[threading.Thread] = []

        def start(thread: threading.Thread) -> None:
            if len(started) == count:
                raise RuntimeError("can't start new thread")
            started.append(thread)
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)

    return limit


@pytest.fixture
def secured(authority: Any) -> Secured:
    return Secured(authority)


@pytest.fixture
def new_secured(authority: Any) -> Callable[..., Secured]:
    """Return a function that creates contexts with further settings, such as ``client_auth="required"``."""
    return lambda **overrides: Secured(authority, **overrides)


@pytest.fixture(params=["plain", "tls"])
def serve(request: pytest.FixtureRequest) -> Callable[..., Served]:
    """Return a function that serves lines, once plaintext and once under TLS."""
    secured = request.getfixturevalue("secured") if request.param == "tls" else None
    return lambda respond, clock=None, options=None: Served(respond, secured, clock=clock, options=options)


@pytest.fixture
def serve_secured() -> Callable[..., Served]:
    """Return a function that serves lines under TLS."""
    return Served


@pytest.fixture
def new_line_core() -> Callable[..., LineCore]:
    return LineCore
