"""`Handshakes`: connections whose TCP is up and whose TLS is not yet.

A handshake costs a hundred times what a request costs, so a crowd of them takes turns with everybody else: a few steps
a turn of the loop, one listener after the other. Each has to be through within a deadline. Their number is bounded for
each listener; at the bound those that keep us waiting are closed, and if there are none, nobody new is accepted
until some are through.
"""

import logging
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.log_lines import LineLimit
from ottla.metrics.tls import TlsMetrics
from ottla.ports import Clock, ConnectionId
from ottla.runtime.tls_stream import Scratch, TlsStream
from ottla.tls.errors import TlsError
from ottla.types import Endpoint

logger = logging.getLogger(__name__)

_TURN_MS: Final = 1
"""Steps go on for so long in one turn of the loop; at least one is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """What a handshake may take.

    Attributes:
        deadline_ms: a handshake that is not through by then is closed.
        patience_ms: at the bound, whoever has not answered for so long makes room.
        open_max: handshakes under way on one listener.
    """

    deadline_ms: int = 10_000
    patience_ms: int = 1_000
    open_max: int = 1_000


class _Handshake:
    """One connection on its way."""

    __slots__ = ("connection", "is_outgoing", "is_queued", "listener", "moved_ms", "peer", "started_ms", "stream")

    def __init__(
        self,
        connection: ConnectionId,
        stream: TlsStream,
        listener: str,
        peer: Endpoint,
        started_ms: int,
        *,
        is_outgoing: bool = False,
    ) -> None:
        self.connection = connection
        self.stream = stream
        self.listener = listener
        self.peer = peer
        self.started_ms = started_ms
        self.moved_ms = started_ms
        self.is_outgoing = is_outgoing
        self.is_queued = False


class TlsContexts(Protocol):
    """Who has the certificates: `runtime.tls_contexts.ListenerContexts`."""

    def as_server(self, listener: str) -> ssl.SSLContext | None:
        """Return what new connections on ``listener`` are secured with; None where it is in the clear."""

    def as_client(self, listener: str) -> ssl.SSLContext | None:
        """Return the same for connections that this node opens to ``listener`` of other nodes."""


class Handshakes:
    """See the module."""

    def __init__(
        self, clock: Clock, contexts: TlsContexts, metrics: TlsMetrics, limits: HandshakeLimits | None = None
    ) -> None:
        self._clock = clock
        self._contexts = contexts
        self._metrics = metrics
        self._limits = limits or HandshakeLimits()
        self._scratch = Scratch()
        self._on_secured: Callable[[ConnectionId, str | None, bool], None]
        self._on_failed: Callable[[ConnectionId, str], None]
        self._on_waiting: Callable[[ConnectionId], None]
        self._open: dict[ConnectionId, _Handshake] = {}
        self._expected: dict[ConnectionId, tuple[Endpoint, str]] = {}
        self._queues: dict[str, deque[_Handshake]] = {}
        self._open_by_listener: Counter[str] = Counter()
        self._failure_lines = LineLimit(clock)

    def report_to(
        self,
        *,
        on_secured: Callable[[ConnectionId, str | None, bool], None],
        on_failed: Callable[[ConnectionId, str], None],
        on_waiting: Callable[[ConnectionId], None],
    ) -> None:
        """Name who is told, before anything begins.

        Args:
            on_secured: of a connection that is through, of the subject of the peer's certificate, and whether this node
                opened it.
            on_failed: of one that is not, and why; it is to be closed.
            on_waiting: of one that waits for the peer again.
        """
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._on_waiting = on_waiting

    def __len__(self) -> int:
        return len(self._open)

    def next_deadline_ms(self) -> int | None:
        """Return when `turn` is to be called at the latest; None when nothing is under way."""
        if not self._open:
            return None
        if self._queues:
            return self._clock.monotonic_ms()
        return next(iter(self._open.values())).started_ms + self._limits.deadline_ms

    def has_room(self, listener: str) -> bool:
        """Return whether one more may begin on ``listener``; makes room where somebody keeps us waiting."""
        if self._open_by_listener.get(listener, 0) < self._limits.open_max:
            return True
        oldest_ms = self._clock.monotonic_ms() - self._limits.patience_ms
        silent = [
            it
            for it in self._open.values()
            if it.listener == listener and not it.is_outgoing and not it.is_queued and it.moved_ms <= oldest_ms
        ]
        for handshake in silent:
            self._fail(
                handshake,
                f"not finished, and {self._limits.open_max} others are under way on {listener}",
            )
        return bool(silent)

    def secures(self, listener: str) -> bool:
        """Return whether connections on ``listener`` begin with a handshake."""
        return self._contexts.as_server(listener) is not None

    def accept(self, connection: ConnectionId, sock: socket.socket, *, listener: str, peer: Endpoint) -> TlsStream:
        """Secure a connection that came in; its handshake begins when the client speaks."""
        context = self._contexts.as_server(listener)
        assert context is not None, "asked with `secures`"
        stream = TlsStream(sock, context, server_name=None, scratch=self._scratch)
        self._begin(_Handshake(connection, stream, listener, peer, self._clock.monotonic_ms()))
        return stream

    def expect(self, connection: ConnectionId, endpoint: Endpoint, listener: str) -> None:
        """Remember whom a connection is dialled to that is to be secured once it is up."""
        if self._contexts.as_client(listener) is not None:
            self._expected[connection] = (endpoint, listener)

    def connect(self, connection: ConnectionId, sock: socket.socket) -> TlsStream | None:
        """Secure a connection that this node opened; None where it stays in the clear."""
        expected = self._expected.pop(connection, None)
        if expected is None:
            return None
        endpoint, listener = expected
        context = self._contexts.as_client(listener)
        assert context is not None, "a listener stays what it is"
        stream = TlsStream(sock, context, server_name=endpoint.host, scratch=self._scratch)
        self._begin(_Handshake(connection, stream, listener, endpoint, self._clock.monotonic_ms(), is_outgoing=True))
        self.on_readable(connection)
        return stream

    def _begin(self, handshake: _Handshake) -> None:
        self._open[handshake.connection] = handshake
        if not handshake.is_outgoing:
            self._open_by_listener[handshake.listener] += 1
        self._metrics.open_handshakes += 1

    def on_readable(self, connection: ConnectionId) -> None:
        """Bytes have come: take the next step when it is its turn."""
        handshake = self._open[connection]
        if not handshake.is_queued:
            handshake.is_queued = True
            self._queues.setdefault(handshake.listener, deque()).append(handshake)

    def forget(self, connection: ConnectionId) -> None:
        """Give up a connection that is closed; no error when it is not under way."""
        self._expected.pop(connection, None)
        handshake = self._open.pop(connection, None)
        if handshake is not None:
            self._metrics.open_handshakes -= 1
            if not handshake.is_outgoing:
                self._open_by_listener[handshake.listener] -= 1

    def turn(self) -> None:
        """Close those that are late, then take steps for a moment, one listener after the other."""
        if not self._open:
            return
        now_ms = self._clock.monotonic_ms()
        for handshake in self._late(now_ms):
            self._fail(handshake, f"not finished within {self._limits.deadline_ms} ms")
        stop_ms = now_ms + _TURN_MS
        while self._queues:
            # Several listeners take turns, so that a crowd at one does not keep the nodes from each other.
            for listener in list(self._queues):
                queue = self._queues[listener]
                handshake = queue.popleft()
                if not queue:
                    del self._queues[listener]
                if handshake.connection in self._open:
                    self._step(handshake)
            if self._clock.monotonic_ms() >= stop_ms:
                return

    def _late(self, now_ms: int) -> list[_Handshake]:
        late = []
        for handshake in self._open.values():
            if handshake.started_ms + self._limits.deadline_ms > now_ms:
                break
            late.append(handshake)
        return late

    def _step(self, handshake: _Handshake) -> None:
        handshake.is_queued = False
        try:
            is_through = handshake.stream.handshake()
        except BlockingIOError:
            is_through = False
        except OSError as error:
            self._fail(handshake, str(error) if isinstance(error, TlsError) else error.strerror or str(error))
            return
        if handshake.stream.has_answered:
            # Bytes alone are no progress: who sends one a second keeps us waiting.
            handshake.moved_ms = self._clock.monotonic_ms()
        if not is_through:
            self._on_waiting(handshake.connection)
            return
        self.forget(handshake.connection)
        self._metrics.handshakes[handshake.listener] += 1
        try:
            subject = handshake.stream.subject()
        except ValueError as error:
            self._on_failed(handshake.connection, f"the certificate's subject cannot be read: {error}")
            return
        self._on_secured(handshake.connection, subject, handshake.is_outgoing)

    def _fail(self, handshake: _Handshake, reason: str) -> None:
        self.forget(handshake.connection)
        self._metrics.failed_handshakes[handshake.listener] += 1
        if self._failure_lines.take():
            logger.warning(
                "TLS handshake with %s on %s failed: %s (%d failed so far)",
                handshake.peer,
                handshake.listener,
                reason,
                self._metrics.failed_handshakes.total(),
            )
        self._on_failed(handshake.connection, f"the TLS handshake failed: {reason}")
