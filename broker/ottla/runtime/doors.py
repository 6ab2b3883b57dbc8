"""`Doors`: a reactor's listening sockets, and the times at which nobody is let in through one of them.

That is so for a moment when the system has no descriptors left, when too many TLS handshakes are under way, and when
the core says so, because connections come too fast. Whoever connects meanwhile waits in the socket's backlog.
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
from ottla.runtime.link import SocketOptions, endpoint_of, open_listening_socket
from ottla.types import Endpoint

logger = logging.getLogger(__name__)

RETRY_ACCEPT_MS: Final = 20
"""Those who wait meanwhile come in together. After a tenth of a second they were so many that others noticed."""
_ERRORS_LOG_INTERVAL_MS: Final = 10_000
_ACCEPTS_PER_EVENT: Final = 8
_SHARE_NS: Final = 100_000
"""Of a turn of the loop, for those who come to one listener; at least one is let in. See `backlog.SHARE_NS`."""
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Doors:
    """See the module.

    Args of the constructor:
        has_room: whether the listener of that name may take one more.
        on_accepted: gets a socket, who is at the other end, and the listener's name.
    """

    def __init__(
        self,
        *,
        selector: selectors.BaseSelector,
        clock: Clock,
        options: SocketOptions,
        has_room: Callable[[str], bool],
        metrics: NetworkMetrics,
        on_accepted: Callable[[socket.socket, Endpoint, str], None],
    ) -> None:
        self._selector = selector
        self._clock = clock
        self._options = options
        self._has_room = has_room
        self._metrics = metrics
        self._on_accepted = on_accepted
        self._sockets: dict[str, socket.socket] = {}
        self._held_until_ms: dict[str, int] = {}
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

    def hold(self, name: str, for_ms: int) -> None:
        """Let nobody in at ``name`` for so long; never shorter than was said before."""
        until_ms = self._clock.monotonic_ms() + for_ms
        before_ms = self._held_until_ms.get(name)
        if before_ms is None and name in self._sockets:
            # Out of descriptors, it would be ready again at once, for ever.
            self._selector.unregister(self._sockets[name])
        self._held_until_ms[name] = until_ms if before_ms is None else max(before_ms, until_ms)

    def turn(self) -> None:
        """Open again what has been held for long enough."""
        if not self._held_until_ms:
            return
        now_ms = self._clock.monotonic_ms()
        for name in [name for name, until_ms in self._held_until_ms.items() if until_ms <= now_ms]:
            del self._held_until_ms[name]
            if name in self._sockets:
                self._watch_again(name)

    def _watch_again(self, name: str) -> None:
        try:
            self._watch(name)
        except OSError as error:
            # The system has no memory for it. Nothing is watched that `hold` would have to unregister.
            self._held_until_ms[name] = self._clock.monotonic_ms() + RETRY_ACCEPT_MS
            self._note_want(name, str(error))

    def next_deadline_ms(self) -> int | None:
        return min(self._held_until_ms.values(), default=None)

    def close(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()

    def _watch(self, name: str) -> None:
        self._selector.register(self._sockets[name], selectors.EVENT_READ, lambda _: self._accept(name))

    def _accept(self, name: str) -> None:
        listener = self._sockets[name]
        until_ns = self._clock.monotonic_ns() + _SHARE_NS
        for _ in range(_ACCEPTS_PER_EVENT):
            if not self._has_room(name):
                self._hold_for_want(name, "too many TLS handshakes are under way")
            if name in self._held_until_ms:
                return
            try:
                sock, peer = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    self._hold_for_want(name, str(error))
                return
            sock.setblocking(False)
            self._on_accepted(sock, endpoint_of(peer), name)
            if self._clock.monotonic_ns() >= until_ns:
                return

    def _hold_for_want(self, name: str, reason: str) -> None:
        self.hold(name, RETRY_ACCEPT_MS)
        self._note_want(name, reason)

    def _note_want(self, name: str, reason: str) -> None:
        self._metrics.accept_pauses[name] += 1
        if self._error_lines.take_permit():
            logger.warning(
                "cannot accept a connection on listener %s: %s; trying again every %d ms (tried %d times so far)",
                name,
                reason,
                RETRY_ACCEPT_MS,
                self._metrics.accept_pauses[name],
            )
