"""`Link`: one socket of the reactor and what waits to be sent on it; `open_listening_socket` for those who come in."""

import errno
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.runtime.tls_stream import TlsStream

_UNSENT_BYTES_MAX: Final = 512 * 1024
"""So much the system takes ahead of what a connection's peer lets it send. It would take megabytes for each peer that
does not read, of memory of its own; what it has not taken is counted by `Unread`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """What ``server.properties`` says of sockets; None leaves a buffer to the system, which sizes it by itself.

    Attributes:
        unread_bytes_max: answers that peers have not taken hold so much memory over all connections.
        idle_ms_max: a peer that takes nothing of what is queued for it is waited for so long.
        tells_dialled: whether the core is told which address of ours a peer has dialled; few nodes want to know.
    """

    receive_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None
    backlog_size: int = 1024
    unread_bytes_max: int = 256 * 1024 * 1024
    idle_ms_max: int = 600_000
    tells_dialled: bool = False


class Link:
    """See the module.

    ``stream`` is what bytes are read from and sent to: the socket itself, or TLS on it, which is ``tls`` as well.
    """

    __slots__ = (
        "closing",
        "events_put_off",
        "file_bytes",
        "has_hung_up",
        "id",
        "is_checked_for_hang_up",
        "is_reading",
        "is_secure",
        "is_sent_much",
        "is_warming",
        "outbox",
        "outbox_bytes",
        "sock",
        "stream",
        "tls",
        "told_to_wait",
        "unread_bytes",
        "warmed",
        "watched",
    )

    def __init__(self, connection: ConnectionId, sock: socket.socket) -> None:
        self.id = connection
        self.sock = sock
        self.stream: socket.socket | TlsStream = sock
        self.tls: TlsStream | None = None
        self.is_secure = True
        """False while a TLS handshake is under way; where there is none, nothing is missing."""
        self.outbox: deque[Chunk] = deque()
        self.outbox_bytes = 0
        self.file_bytes = 0
        """Of ``outbox_bytes``, those that are in files."""
        self.unread_bytes = 0
        """What `Unread` has counted for this connection."""
        self.is_reading = True
        self.is_checked_for_hang_up = False
        self.has_hung_up = False
        """Whether its peer has, and what it sent before is still to be read."""
        self.told_to_wait = False
        self.closing = False
        self.is_warming = False
        self.is_sent_much = False
        """Whether its last answers were large, and it is not known that the peer has taken them."""
        self.warmed: FileSlice | None = None
        self.watched = 0
        self.events_put_off = 0
        """Those that wait for its turn in the `Backlog`."""

    def secure(self, tls: "TlsStream") -> None:
        """Have everything go through ``tls`` from now on, whose handshake is still to come."""
        self.tls = self.stream = tls
        self.is_secure = False

    @property
    def memory_bytes(self) -> int:
        """How much of what waits for the socket is in memory."""
        return self.outbox_bytes - self.file_bytes + (0 if self.tls is None else self.tls.unsent_bytes)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits for the socket, in the clear or encrypted already."""
        return bool(self.outbox) or (self.tls is not None and self.tls.has_unsent)


class _ListeningSocket(socket.socket):
    """One whose family and type are known to `accept`, which asks for them for each connection that it makes.

    The standard library's looks each of them up as an enumeration's member: a third of what accepting costs.
    """

    __slots__ = ("family",)
    family: socket.AddressFamily
    type = socket.SOCK_STREAM

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, self.type)
        self.family = family


def open_listening_socket(host: str, port: int, options: SocketOptions) -> socket.socket:
    """Return a non-blocking socket that listens on ``host``: every address where it is empty.

    Raises:
        OSError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if host == "" and socket.has_dualstack_ipv6():
        family, host = socket.AF_INET6, "::"
    sock = _ListeningSocket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
        # Before listening: accepted connections inherit all of them, and the window is agreed on at the first packet.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        if options.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        _bound_unsent(sock)
        sock.bind((host, port))
        sock.listen(options.backlog_size)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _bound_unsent(sock: socket.socket) -> None:
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is None:
        return
    try:
        sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT_BYTES_MAX)
    except OSError as error:
        # Sandboxes that only look like Linux lack it; a node can do without.
        if error.errno != errno.ENOPROTOOPT:
            raise


def endpoint_of(address: tuple[str, int] | tuple[str, int, int, int]) -> Endpoint:
    """Return host and port of a socket address, IPv4-mapped IPv6 written as IPv4."""
    return Endpoint(address[0].removeprefix("::ffff:"), address[1])


def peer_of(sock: socket.socket) -> Endpoint | None:
    """Return who is at the other end; None when nobody is any more."""
    try:
        return endpoint_of(sock.getpeername())
    except OSError:
        return None
