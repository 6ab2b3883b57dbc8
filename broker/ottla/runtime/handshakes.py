"""`Handshakes`: connections whose TLS handshake is in progress.

A handshake costs a hundred times as much as a request, nearly all of it in OpenSSL: that runs on a thread next to the
loop, a few steps at a time, round-robin over the listeners. Each handshake has a deadline. Their number is bounded per
listener; at the bound those that wait for a silent peer are closed, and if there are none, the listener does not accept
new connections until some handshakes have completed.
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

_IN_PROGRESS_MAX: Final = 4
"""Steps that the thread has queued: it need not wait for the loop, and a quiet listener's client waits for few."""
_CLOSES_PER_ITERATION: Final = 4
"""Of handshakes past their deadline, and of failed ones; closing many at once would delay all other connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeLimits:
    """Limits of handshakes.

    Attributes:
        deadline_ms: a handshake that takes longer is closed.
        patience_ms: at the bound, a handshake whose peer has been silent for so long is closed.
        open_max: handshakes in progress on one listener.
    """

    deadline_ms: int = 10_000
    patience_ms: int = 1_000
    open_max: int = 1_000


class _Handshake:
    """One handshake in progress."""

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
    """Source of TLS contexts: `runtime.tls_contexts.ListenerContexts`."""

    def as_server(self, listener: str) -> ssl.SSLContext | None:
        """Return the context for new connections on ``listener``; None if it is plaintext."""

    def as_client(self, listener: str) -> ssl.SSLContext | None:
        """Return the context for connections that this node opens to ``listener`` of other nodes; None as above."""


class Worker(Protocol):
    """Thread that runs the steps: `runtime.step_thread.StepThread`."""

    def submit(self, work: Callable[[], None]) -> None: ...

    def close(self) -> None: ...


class Handshakes:
    """TLS handshakes of a reactor's connections, accepted and outgoing."""

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
        self._in_progress = 0
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
        """Set the callbacks; call it before the first handshake.

        Args:
            post: runs a function on the loop soon; called from another thread.
            on_secured: receives a connection whose handshake is complete, the subject of the peer's certificate, and
                whether this node opened the connection.
            on_failed: receives a connection whose handshake failed, and why; the callee closes it.
            on_waiting: receives a connection that waits for bytes of the peer again.
        """
        self._post = post
        self._on_secured = on_secured
        self._on_failed = on_failed
        self._on_waiting = on_waiting

    def __len__(self) -> int:
        return len(self._open)

    def next_deadline_ms(self) -> int | None:
        """Return when `submit_steps` must be called at the latest; None while no handshake is in progress."""
        if not self._open:
            return None
        if self._queues and self._in_progress < _IN_PROGRESS_MAX:
            return self._clock.monotonic_ms()
        return next(iter(self._open.values())).started_ms + self._limits.deadline_ms

    def has_capacity(self, listener: str) -> bool:
        """Return whether one more may start on ``listener``; at the bound, close handshakes with silent peers first."""
        if self._open_by_listener.get(listener, 0) < self._limits.open_max:
            return True
        oldest_ms = self._clock.monotonic_ms() - self._limits.patience_ms
        silent = (
            it
            for it in self._open.values()
            if it.listener == listener and not it.is_outgoing and not it.is_queued and it.moved_ms <= oldest_ms
        )
        to_close = list(islice(silent, _CLOSES_PER_ITERATION))
        for handshake in to_close:
            self._fail(
                handshake,
                f"not finished, and {self._limits.open_max} others are in progress on {listener}",
            )
        return bool(to_close)

    def secures(self, listener: str) -> bool:
        """Return whether connections on ``listener`` start with a handshake."""
        return self._contexts.as_server(listener) is not None

    def accept(self, connection: ConnectionId, sock: socket.socket, *, listener: str, peer: Endpoint) -> TlsStream:
        """Secure an accepted connection; its handshake starts with the client's first bytes."""
        context = self._contexts.as_server(listener)
        assert context is not None, "the caller checks `secures`"
        stream = TlsStream(sock, context, server_name=None, scratch=self._scratch)
        self._register(_Handshake(connection, stream, listener, peer, self._clock.monotonic_ms()))
        return stream

    def expect(self, connection: ConnectionId, endpoint: Endpoint, listener: str) -> None:
        """Note the target of an outgoing connection that must be secured once it is established."""
        if self._contexts.as_client(listener) is not None:
            self._expected[connection] = (endpoint, listener)

    def connect(self, connection: ConnectionId, sock: socket.socket) -> TlsStream | None:
        """Secure a connection that this node opened; return None for a plaintext one."""
        expected = self._expected.pop(connection, None)
        if expected is None:
            return None
        endpoint, listener = expected
        context = self._contexts.as_client(listener)
        assert context is not None, "a listener's security protocol never changes"
        stream = TlsStream(sock, context, server_name=endpoint.host, scratch=self._scratch)
        self._register(_Handshake(connection, stream, listener, endpoint, self._clock.monotonic_ms(), is_outgoing=True))
        self.on_readable(connection)
        return stream

    def _register(self, handshake: _Handshake) -> None:
        self._open[handshake.connection] = handshake
        if not handshake.is_outgoing:
            self._open_by_listener[handshake.listener] += 1
        self._metrics.open_handshakes += 1

    def on_readable(self, connection: ConnectionId) -> None:
        """Queue the connection's next step: bytes have arrived."""
        handshake = self._open[connection]
        if not handshake.is_queued:
            handshake.is_queued = True
            self._queues.setdefault(handshake.listener, deque()).append(handshake)

    def remove(self, connection: ConnectionId) -> None:
        """Remove a closed connection; no error if its handshake is not in progress."""
        self._expected.pop(connection, None)
        handshake = self._open.pop(connection, None)
        if handshake is not None:
            self._metrics.open_handshakes -= 1
            if not handshake.is_outgoing:
                self._open_by_listener[handshake.listener] -= 1

    def submit_steps(self) -> None:
        """Close handshakes past their deadline, then submit steps, round-robin over the listeners."""
        if not self._open:
            return
        for handshake in self._late(self._clock.monotonic_ms()):
            self._fail(handshake, f"not finished within {self._limits.deadline_ms} ms")
        closings = 0
        while self._queues and self._in_progress < _IN_PROGRESS_MAX and closings < _CLOSES_PER_ITERATION:
            # Round-robin over listeners: a connection storm on one must not keep nodes from connecting to each other.
            listener, queue = next(iter(self._queues.items()))
            handshake = queue.popleft()
            del self._queues[listener]
            if queue:
                self._queues[listener] = queue
            if handshake.connection in self._open and not self._start_step(handshake):
                closings += 1

    def close(self) -> None:
        self._worker.close()

    def _late(self, now_ms: int) -> list[_Handshake]:
        late: list[_Handshake] = []
        for handshake in self._open.values():
            if handshake.started_ms + self._limits.deadline_ms > now_ms or len(late) == _CLOSES_PER_ITERATION:
                break
            late.append(handshake)
        return late

    def _start_step(self, handshake: _Handshake) -> bool:
        """Submit the next step if bytes are there; return False if the connection had to be closed."""
        try:
            handshake.stream.receive_handshake_bytes()
        except BlockingIOError:
            handshake.is_queued = False
            self._on_waiting(handshake.connection)
        except OSError as error:
            self._fail(handshake, _message(error))
            return False
        else:
            return self._submit_step(handshake)
        return True

    def _submit_step(self, handshake: _Handshake) -> bool:
        self._in_progress += 1
        try:
            self._worker.submit(partial(self._step, handshake))
        except (RuntimeError, MemoryError) as error:
            self._in_progress -= 1
            self._fail(handshake, f"no thread can be started for it: {error}")
            return False
        return True

    def _step(self, handshake: _Handshake) -> None:
        """Take one step; it runs on the other thread, and touches nothing but the stream."""
        handshake.stream.step()
        self._post(partial(self._finish_step, handshake))

    def _finish_step(self, handshake: _Handshake) -> None:
        self._in_progress -= 1
        if handshake.connection not in self._open:
            return  # closed meanwhile
        handshake.is_queued = False
        try:
            is_complete = handshake.stream.conclude()
        except OSError as error:
            self._fail(handshake, _message(error))
            return
        if handshake.stream.has_produced_output:
            # Bytes alone are no progress: a peer may send one a second.
            handshake.moved_ms = self._clock.monotonic_ms()
        if not is_complete:
            self._on_waiting(handshake.connection)
            return
        self.remove(handshake.connection)
        self._metrics.handshakes[handshake.listener] += 1
        try:
            subject = handshake.stream.subject()
        except ValueError as error:
            self._on_failed(handshake.connection, f"the certificate's subject cannot be read: {error}")
            return
        self._on_secured(handshake.connection, subject, handshake.is_outgoing)

    def _fail(self, handshake: _Handshake, reason: str) -> None:
        self.remove(handshake.connection)
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


def _message(error: OSError) -> str:
    return str(error) if isinstance(error, TlsError) else error.strerror or str(error)
