"""`Lingering`: links and sockets whose peers may not know yet that the core has closed them.

No limit on connections counts them.
"""

import fcntl
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ottla.ports import Clock
from ottla.runtime.link import Link

LINGER_MS: Final = 10_000
HUNG_UP_MS: Final = 700
"""Linux repeats the first bytes that are not acknowledged after 200 and 600 ms, and then after 1.4 s."""
_RESET_WHEN_CLOSED: Final = struct.pack("ii", 1, 0)
_SIOCOUTQNSD: Final = 0x894B
"""Linux: bytes of a socket that were not sent once, the end of the connection included."""
_DRAINED_BYTES_MAX: Final = 4 * 1024 * 1024


class Lingering:
    """See the module.

    Attributes:
        links: closed links with unsent bytes, with their deadlines, the earliest first.
        sockets: those that were hung up on, likewise.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.links: deque[tuple[int, Link]] = deque()
        self.sockets: deque[tuple[int, socket.socket]] = deque()

    def add(self, link: Link) -> None:
        """Let the peer read the queued bytes for a while."""
        self.links.append((self._clock.monotonic_ms() + LINGER_MS, link))

    def hang_up(self, sock: socket.socket) -> None:
        """Send the end of the connection; reset it later if the end is stuck behind bytes without an acknowledgement.

        Over a network that loses packets the end is sent again until it arrives, while a reset is sent once: a peer
        that misses it waits for its own time-out. Where nothing arrives from the peer, only the reset can be sent.
        """
        with suppress(OSError):  # the peer has reset it
            sock.shutdown(socket.SHUT_WR)
        self.sockets.append((self._clock.monotonic_ms() + HUNG_UP_MS, sock))

    def next_deadline_ms(self) -> int | None:
        return min((each[0][0] for each in (self.links, self.sockets) if each), default=None)

    def take_expired(self) -> Iterator[Link]:
        """Close the sockets whose time is over; yield and remove such links, among them some that were closed since."""
        if not self.links and not self.sockets:
            return
        now_ms = self._clock.monotonic_ms()
        while self.sockets and self.sockets[0][0] <= now_ms:
            _close(self.sockets.popleft()[1])
        while self.links and self.links[0][0] <= now_ms:
            yield self.links.popleft()[1]

    def close(self) -> None:
        """Close the sockets that were hung up on."""
        for _, sock in self.sockets:
            _close(sock)
        self.sockets.clear()


def _close(sock: socket.socket) -> None:
    with suppress(OSError):
        if _is_end_stuck(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
        else:
            _drain(sock)  # closing it with unread bytes would reset it
    sock.close()


def _is_end_stuck(sock: socket.socket) -> bool:
    """Return whether the end was not sent, which systems other than Linux do not tell."""
    if sys.platform != "linux":
        return True
    return any(fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, bytes(4)))


def _drain(sock: socket.socket) -> None:
    left = _DRAINED_BYTES_MAX
    while left > 0 and (chunk := sock.recv(min(left, 64 * 1024))):
        left -= len(chunk)
