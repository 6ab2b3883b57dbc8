"""`HangUps`: detects that a socket's peer has hung up while reading from the socket is paused.

A selector reports the end of a stream as "readable", like unread bytes before it. Linux distinguishes the two: a
separate epoll watches the sockets only for their end (EPOLLRDHUP), and the loop's selector watches this epoll, which is
readable when it has events.

On systems without epoll, the end is noticed once the socket is read again.
"""

import select
import selectors
import socket
from collections.abc import Callable

from ottla.ports import ConnectionId

_EVENTS_PER_ROUND = 32
"""If more peers hang up at once, the next iterations of the loop report the others."""


class HangUps:
    """Watch for peers that hang up.

    Args of the constructor:
        selector: the loop's.
        on_hang_up: called once per connection; its socket stays watched until `unwatch`.
    """

    def __init__(self, selector: selectors.BaseSelector, on_hang_up: Callable[[ConnectionId], None]) -> None:
        self._on_hang_up = on_hang_up
        self._connections: dict[int, ConnectionId] = {}
        self._epoll: select.epoll | None = None
        if hasattr(select, "epoll"):
            self._epoll = select.epoll()
            selector.register(self._epoll, selectors.EVENT_READ, self._on_events)

    def watch(self, sock: socket.socket, connection: ConnectionId) -> None:
        """Report when the peer of ``sock`` hangs up, or has done so already."""
        if self._epoll is not None:
            self._connections[sock.fileno()] = connection
            self._epoll.register(sock, select.EPOLLRDHUP)

    def unwatch(self, sock: socket.socket) -> None:
        """Stop watching ``sock``; call it before the socket is closed."""
        if self._epoll is not None:
            del self._connections[sock.fileno()]
            self._epoll.unregister(sock)

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()

    def _on_events(self, _: int) -> None:
        assert self._epoll is not None
        for descriptor, _events in self._epoll.poll(0, _EVENTS_PER_ROUND):
            # The callback of one event may have closed the connection of another.
            connection = self._connections.get(descriptor)
            if connection is not None:
                self._on_hang_up(connection)
