"""`Acceptor`: accepts connections on a reactor's listening sockets, and pauses single listeners.

A listener pauses briefly when the system has no descriptors left, when too many TLS handshakes are in progress, or on
request of the core because the connection rate is too high. Meanwhile connections wait in the socket's backlog. While
the loop is stalled all listeners may be shut down: then connecting fails.
"""

import errno
import logging
import selectors
import socket
from collections.abc import Callable
from typing import Final

from ottla.log_lines import LineLimit
from ottla.metrics.network import NetworkMetrics
from ottla.ports import Clock
from ottla.runtime.link import SocketOptions, endpoint_of, open_listening_socket, shut_down_socket
from ottla.types import Endpoint

logger = logging.getLogger(__name__)

RETRY_ACCEPT_MS: Final = 20
"""Connections that queued during a pause are accepted in a burst: after 100 ms it was large enough to delay others."""
_ERRORS_LOG_INTERVAL_MS: Final = 10_000
_ACCEPTS_PER_EVENT: Final = 8
_SLICE_NS: Final = 100_000
"""Per iteration of the loop and listener; at least one connection is accepted. See `deferred_links.SLICE_NS`."""
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Listening sockets of a reactor.

    Args of the constructor:
        has_capacity: returns whether the named listener may accept one more connection.
        on_accepted: receives the socket, the peer's address, and the listener's name.
    """

    def __init__(
        self,
        *,
        selector: selectors.BaseSelector,
        clock: Clock,
        options: SocketOptions,
        has_capacity: Callable[[str], bool],
        metrics: NetworkMetrics,
        on_accepted: Callable[[socket.socket, Endpoint, str], None],
    ) -> None:
        self._selector = selector
        self._clock = clock
        self._options = options
        self._has_capacity = has_capacity
        self._metrics = metrics
        self._on_accepted = on_accepted
        self._sockets: dict[str, socket.socket] = {}
        self._paused_until_ms: dict[str, int] = {}
        self._error_lines = LineLimit(clock, interval_ms=_ERRORS_LOG_INTERVAL_MS)

    def open(self, name: str, host: str, port: int) -> int:
        """Open the listener ``name``; return its port, which the system chooses when ``port`` is 0.

        Raises:
            OSError: the address cannot be bound.
        """
        sock = self._sockets[name] = open_listening_socket(host, port, self._options)
        self._watch(name)
        bound: int = sock.getsockname()[1]
        return bound

    def pause(self, name: str, for_ms: int) -> None:
        """Stop accepting on ``name`` for ``for_ms``; an earlier pause is never shortened."""
        until_ms = self._clock.monotonic_ms() + for_ms
        before_ms = self._paused_until_ms.get(name)
        if before_ms is None and name in self._sockets:
            # Without descriptors a watched listener would stay ready, and the loop would spin.
            self._selector.unregister(self._sockets[name])
        self._paused_until_ms[name] = until_ms if before_ms is None else max(before_ms, until_ms)

    def resume_due(self) -> None:
        """Resume listeners whose pause has ended."""
        if not self._paused_until_ms:
            return
        now_ms = self._clock.monotonic_ms()
        for name in [name for name, until_ms in self._paused_until_ms.items() if until_ms <= now_ms]:
            del self._paused_until_ms[name]
            if name in self._sockets:
                self._watch_or_retry(name)

    def _watch_or_retry(self, name: str) -> None:
        try:
            self._watch(name)
        except OSError as error:
            # The system has no memory for it. The listener is not registered, so `pause` must not unregister it.
            self._paused_until_ms[name] = self._clock.monotonic_ms() + RETRY_ACCEPT_MS
            self._note_shortage(name, str(error))

    def next_deadline_ms(self) -> int | None:
        return min(self._paused_until_ms.values(), default=None)

    def shut_down(self) -> None:
        """End listening until the loop runs an iteration; called on another thread while the loop is stalled."""
        for sock in list(self._sockets.values()):
            shut_down_socket(sock)

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()

    def _watch(self, name: str) -> None:
        self._selector.register(self._sockets[name], selectors.EVENT_READ, lambda _: self._accept(name))

    def _accept(self, name: str) -> None:
        listener = self._sockets[name]
        until_ns = self._clock.monotonic_ns() + _SLICE_NS
        for _ in range(_ACCEPTS_PER_EVENT):
            if not self._has_capacity(name):
                self._pause_for_shortage(name, "too many TLS handshakes are in progress")
            if name in self._paused_until_ms:
                return
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._pause_for_shortage(name, str(error))
                elif error.errno == errno.EINVAL:
                    self._listen_again(name)
                return
            sock.setblocking(False)
            self._on_accepted(sock, endpoint_of(peer), name)
            if self._clock.monotonic_ns() >= until_ns:
                return

    def _listen_again(self, name: str) -> None:
        """Listen again after `shut_down`; the socket has kept its address."""
        try:
            self._sockets[name].listen(self._options.backlog_size)
        except OSError as error:
            self._pause_for_shortage(name, str(error))

    def _pause_for_shortage(self, name: str, reason: str) -> None:
        self.pause(name, RETRY_ACCEPT_MS)
        self._note_shortage(name, reason)

    def _note_shortage(self, name: str, reason: str) -> None:
        self._metrics.accept_pauses[name] += 1
        if self._error_lines.take_permit():
            logger.warning(
                "cannot accept a connection on listener %s: %s; retrying every %d ms (%d pauses so far)",
                name,
                reason,
                RETRY_ACCEPT_MS,
                self._metrics.accept_pauses[name],
            )
