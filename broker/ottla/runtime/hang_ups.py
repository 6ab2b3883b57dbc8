"""`HangUps`: notices that the peer of a socket has hung up while nobody reads from it.

A selector reports the end of a stream as "readable", which unread bytes in front of it are as well. Linux tells the
two apart: an epoll of its own watches the sockets for nothing but their end (EPOLLRDHUP), and is itself watched by the
loop's selector, being readable when it has something to tell.

Where there is no epoll, the end is noticed once the socket is read again.
"""

import select
import selectors
import socket
from collections.abc import Callable

from ottla.ports import ConnectionId

_EVENTS_PER_ROUND = 32
"""Of a crowd that hangs up at once the others are told of in the next turns of the loop."""


class HangUps:
    """See the module.

    Args of the constructor:
        selector: the loop's.
        on_hang_up: told of each connection once; its socket is still watched until `forget`.
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

    def forget(self, sock: socket.socket) -> None:
        """Watch ``sock`` no more; to be called before it is closed."""
        if self._epoll is not None:
            del self._connections[sock.fileno()]
            self._epoll.unregister(sock)

    def close(self) -> None:
        if self._epoll is not None:
            self._epoll.close()

    def _on_events(self, _: int) -> None:
        assert self._epoll is not None
        for descriptor, _events in self._epoll.poll(0, _EVENTS_PER_ROUND):
            # What one of them sets off may have closed another.
            connection = self._connections.get(descriptor)
            if connection is not None:
                self._on_hang_up(connection)
