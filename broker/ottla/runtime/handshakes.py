"""`Handshakes`: connections whose TCP is up and whose TLS is not yet.

A handshake costs a hundred times what a request costs, nearly all of it in OpenSSL: that happens on a thread beside the
loop, a few steps at a time, one listener after the other. Each handshake has to be through within a deadline. Their
number is bounded for each listener; at the bound those that keep us waiting are closed, and if there are none, nobody
new is accepted until some are through.
"""

import logging
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, Protocol

from ottla.log_lines import LineLimit
from ottla.metrics.tls import TlsMetrics
from ottla.ports import Clock, ConnectionId
from ottla.quoting import one_line
from ottla.runtime.step_thread import StepThread
from ottla.runtime.tls_stream import Scratch, TlsStream
from ottla.tls.errors import TlsError
from ottla.types import Endpoint

logger = logging.getLogger(__name__)

_IN_HAND_MAX: Final = 4
"""Steps that the thread has at once: it need not wait for the loop, and who comes at a quiet listener waits for few."""
_CLOSINGS_PER_TURN: Final = 4
"""Of handshakes that are late, and of those that are off; a crowd of them at once would hold up everybody else."""


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


class Worker(Protocol):
    """Who takes the steps: `runtime.step_thread.StepThread`."""

    def submit(self, work: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class Handshakes:
    """See the module."""

    def __init__(
        self,
        clock: Clock,
        contexts: TlsContexts,
        metrics: TlsMetrics,
        limits: HandshakeLimits | None = None,
        worker: Worker | None = None,
    ) -> None:
        self._clock = clock
        self._contexts = contexts
        self._metrics = metrics
        self._limits = limits or HandshakeLimits()
        self._worker = worker or StepThread()
        self._in_hand = 0
        self._scratch = Scratch()
        self._post: Callable[[Callable[[], None]], None]
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
        post: Callable[[Callable[[], None]], None],
        on_secured: Callable[[ConnectionId, str | None, bool], None],
        on_failed: Callable[[ConnectionId, str], None],
        on_waiting: Callable[[ConnectionId], None],
    ) -> None:
        """Name who is told, before anything begins.

        Args:
            post: runs a function on the loop soon; called from another thread.
            on_secured: of a connection that is through, of the subject of the peer's certificate, and whether this node
                opened it.
            on_failed: of one that is not, and why; it is to be closed.
            on_waiting: of one that waits for the peer again.
        """
        self._post = post
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._on_waiting = on_waiting

    def __len__(self) -> int:
        return len(self._open)

    def next_deadline_ms(self) -> int | None:
        """Return when `turn` is to be called at the latest; None when nothing is under way."""
        if not self._open:
            return None
        if self._queues and self._in_hand < _IN_HAND_MAX:
            return self._clock.monotonic_ms()
        return next(iter(self._open.values())).started_ms + self._limits.deadline_ms

    def has_room(self, listener: str) -> bool:
        """Return whether one more may begin on ``listener``; makes room where somebody keeps us waiting."""
        if self._open_by_listener.get(listener, 0) < self._limits.open_max:
            return True
        oldest_ms = self._clock.monotonic_ms() - self._limits.patience_ms
        silent = (
            it
            for it in self._open.values()
            if it.listener == listener and not it.is_outgoing and not it.is_queued and it.moved_ms <= oldest_ms
        )
        to_close = list(islice(silent, _CLOSINGS_PER_TURN))
        for handshake in to_close:
            self._fail(
                handshake,
                f"not finished, and {self._limits.open_max} others are under way on {listener}",
            )
        return bool(to_close)

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
        """Close those that are late, then hand over steps, one listener after the other."""
        if not self._open:
            return
        for handshake in self._late(self._clock.monotonic_ms()):
            self._fail(handshake, f"not finished within {self._limits.deadline_ms} ms")
        closings = 0
        while self._queues and self._in_hand < _IN_HAND_MAX and closings < _CLOSINGS_PER_TURN:
            # Several listeners take turns, so that a crowd at one does not keep the nodes from each other.
            listener, queue = next(iter(self._queues.items()))
            handshake = queue.popleft()
            del self._queues[listener]
            if queue:
                self._queues[listener] = queue
            if handshake.connection in self._open and not self._begin_step(handshake):
                closings += 1

    def close(self) -> None:
        self._worker.close()

    def _late(self, now_ms: int) -> list[_Handshake]:
        late: list[_Handshake] = []
        for handshake in self._open.values():
            if handshake.started_ms + self._limits.deadline_ms > now_ms or len(late) == _CLOSINGS_PER_TURN:
                break
            late.append(handshake)
        return late

    def _begin_step(self, handshake: _Handshake) -> bool:
        """Hand a step over if there is one; return False where the connection had to be closed."""
        try:
            handshake.stream.hear()
        except BlockingIOError:
            handshake.is_queued = False
            self._on_waiting(handshake.connection)
        except OSError as error:
            self._fail(handshake, _words(error))
            return False
        else:
            return self._submit_step(handshake)
        return True

    def _submit_step(self, handshake: _Handshake) -> bool:
        self._in_hand += 1
        try:
            self._worker.submit(partial(self._step, handshake))
        except (RuntimeError, MemoryError) as error:
            self._in_hand -= 1
            self._fail(handshake, f"no thread can be started for it: {error}")
            return False
        return True

    def _step(self, handshake: _Handshake) -> None:
        """Runs on the other thread, and touches nothing but the stream."""
        handshake.stream.step()
        self._post(partial(self._end_step, handshake))

    def _end_step(self, handshake: _Handshake) -> None:
        self._in_hand -= 1
        if handshake.connection not in self._open:
            return  # closed meanwhile
        handshake.is_queued = False
        try:
            is_through = handshake.stream.conclude()
        except OSError as error:
            self._fail(handshake, _words(error))
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
        if self._failure_lines.take_permit():
            logger.warning(
                "TLS handshake with %s on %s failed: %s (%d failed so far)",
                handshake.peer,
                handshake.listener,
                one_line(reason),
                self._metrics.failed_handshakes.total(),
            )
        self._on_failed(handshake.connection, f"the TLS handshake failed: {reason}")


def _words(error: OSError) -> str:
    return str(error) if isinstance(error, TlsError) else error.strerror or str(error)
