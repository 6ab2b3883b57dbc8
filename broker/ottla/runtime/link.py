"""`Link`: one socket of the reactor with its queue of unsent data; `open_listening_socket` for listeners."""

import errno
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.ports import Chunk, ConnectionId, FileSlice
from ottla.types import Endpoint

if TYPE_CHECKING:
    from ottla.runtime.tls_stream import TlsStream

_LAST_READS_MAX: Final = 4
"""Of a socket that is about to be closed; bounded, as the peer may keep sending."""
_UNSENT_BYTES_MAX: Final = 512 * 1024
"""Bytes that the kernel buffers beyond the peer's receive window. Without a bound it would buffer megabytes for each
peer that does not read; bytes that it has not taken are counted by `UnsentLimits`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketOptions:
    """Socket settings of ``server.properties``; None leaves the size of a buffer to the kernel.

    Attributes:
        unread_bytes_max: maximum memory of unread responses over all connections.
        idle_ms_max: a peer that reads nothing of its queued data for so long is disconnected.
        reports_local_address: whether the core receives the address that a peer connected to; few nodes need it.
    """

    receive_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None
    backlog_size: int = 1024
    unread_bytes_max: int = 256 * 1024 * 1024
    idle_ms_max: int = 600_000
    reports_local_address: bool = False


class Link:
    """One connection's socket and output queue.

    ``stream`` is used for reads and writes: the socket itself, or TLS on it, which is then ``tls`` as well.
    """

    __slots__ = (
        "closing",
        "deferred_events",
        "file_bytes",
        "has_hung_up",
        "id",
        "is_backpressured",
        "is_checked_for_hang_up",
        "is_in_group",
        "is_reading",
        "is_secure",
        "is_sent_much",
        "is_warming",
        "outbox",
        "outbox_bytes",
        "sock",
        "stream",
        "tls",
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
        """False while a TLS handshake is in progress; True on plaintext connections."""
        self.outbox: deque[Chunk] = deque()
        self.outbox_bytes = 0
        self.file_bytes = 0
        """Part of ``outbox_bytes`` that is in files."""
        self.unread_bytes = 0
        """Bytes that `UnsentLimits` has counted for this connection."""
        self.is_reading = True
        self.is_checked_for_hang_up = False
        self.has_hung_up = False
        """Whether the peer has hung up, and bytes that it sent before are still to be read."""
        self.is_backpressured = False
        self.is_in_group = False
        """Whether its `ResponseGroup` will send the outbox."""
        self.closing = False
        self.is_warming = False
        self.is_sent_much = False
        """Whether the last responses were large, and the peer may not have received them yet."""
        self.warmed: FileSlice | None = None
        self.watched = 0
        self.deferred_events = 0
        """Events that wait in `DeferredLinks`."""

    def secure(self, tls: "TlsStream") -> None:
        """Read and write through ``tls`` from now on, whose handshake has not started yet."""
        self.tls = self.stream = tls
        self.is_secure = False

    @property
    def memory_bytes(self) -> int:
        """Number of unsent bytes that are in memory."""
        return self.outbox_bytes - self.file_bytes + (0 if self.tls is None else self.tls.unsent_bytes)

    @property
    def has_unsent(self) -> bool:
        """Whether bytes wait for the socket, plaintext or already encrypted."""
        return bool(self.outbox) or (self.tls is not None and self.tls.has_unsent)


class _ListeningSocket(socket.socket):
    """Listening socket with cached family and type, which `accept` reads for each new connection.

    The standard library converts each of them to an enumeration's member: a third of the cost of accepting.
    """

    __slots__ = ("family",)
    family: socket.AddressFamily
    type = socket.SOCK_STREAM

    def __init__(self, family: socket.AddressFamily) -> None:
        super().__init__(family, self.type)
        self.family = family


def open_listening_socket(host: str, port: int, options: SocketOptions) -> socket.socket:
    """Return a non-blocking socket that listens on ``host``; on every address if it is empty.

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
        # Before listening: accepted connections inherit these options, and the window is negotiated in the handshake.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
        if options.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
        set_tcp_option(sock, "TCP_NOTSENT_LOWAT", _UNSENT_BYTES_MAX)
        _bind(sock, host, port)
        sock.listen(options.backlog_size)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _bind(sock: socket.socket, host: str, port: int) -> None:
    if port:
        sock.bind((host, port))
        return
    # A socket that is bound to port 0 itself loses the port that the system chose when it is shut down.
    with socket.socket(sock.family) as chosen:
        chosen.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        chosen.bind((host, 0))
        sock.bind((host, chosen.getsockname()[1]))


def shut_down_socket(sock: socket.socket) -> None:
    """Disconnect a socket, or end the listening of one; may be called on any thread.

    The owner of the socket notices by its next event, and closes it.
    """
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:  # closed meanwhile, or disconnected by the peer
        return


def drain_socket(sock: socket.socket, scratch: bytearray | memoryview) -> None:
    """Discard bytes that have arrived: closing a socket with unread bytes resets the connection.

    Raises:
        OSError: there are no more bytes, or the connection failed.
    """
    for _ in range(_LAST_READS_MAX):
        if not sock.recv_into(scratch):
            return


def set_tcp_option(sock: socket.socket, name: str, value: int) -> None:
    """Set an option, by its name in `socket`, where the system has it: a node works without it."""
    option = getattr(socket, name, None)
    if option is None:
        return
    try:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    except OSError as error:
        # Sandboxes that emulate Linux may lack it.
        if error.errno != errno.ENOPROTOOPT:
            raise


def endpoint_of(address: tuple[str, int] | tuple[str, int, int, int]) -> Endpoint:
    """Return host and port of a socket address; IPv4-mapped IPv6 is written as IPv4."""
    return Endpoint(address[0].removeprefix("::ffff:"), address[1])


def peer_of(sock: socket.socket) -> Endpoint | None:
    """Return the peer's address; None if the socket is no longer connected."""
    try:
        return endpoint_of(sock.getpeername())
    except OSError:
        return None
