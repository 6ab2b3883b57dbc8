"""`Lingering`: links and sockets whose peers may not know yet that the core has closed them.

No limit on connections counts them.
"""

import fcntl
import socket
import struct
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar

from ottla.ports import Clock
from ottla.runtime.link import Link, drain_socket
from ottla.types import NEVER_MS

T = TypeVar("T")

LINGER_MS: Final = 10_000
END_LINGER_MS: Final = 700
"""Linux repeats the first bytes that are not acknowledged after 200 and 600 ms, and then after 1.4 s."""
_RESET_WHEN_CLOSED: Final = struct.pack("ii", 1, 0)
_SIOCOUTQNSD: Final = 0x894B
"""Linux: bytes of a socket that were not sent once, the end of the connection included."""
_SCRATCH_BYTES: Final = 1024 * 1024


class Lingering:
    """See the module.

    Attributes:
        links: closed links with unsent bytes, with their deadlines, the earliest first.
        sockets: those whose end was sent (`send_end`), likewise.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.links: deque[tuple[int, Link]] = deque()
        self.sockets: deque[tuple[int, socket.socket]] = deque()

    def add(self, link: Link) -> None:
        """Let the peer read the queued bytes for a while."""
        self.links.append((self._clock.monotonic_ms() + LINGER_MS, link))

    def send_end(self, sock: socket.socket) -> None:
        """Send the end of the connection; reset it later if the end is stuck behind bytes without an acknowledgement.

        Over a network that loses packets the end is sent again until it arrives, while a reset is sent once: a peer
        that misses it waits for its own time-out. Where nothing arrives from the peer, only the reset can be sent.
        """
        with suppress(OSError):  # the peer has reset it
            sock.shutdown(socket.SHUT_WR)
        self.sockets.append((self._clock.monotonic_ms() + END_LINGER_MS, sock))

    def next_deadline_ms(self) -> int | None:
        if not self.links and not self.sockets:
            return None
        return min(each[0][0] for each in (self.links, self.sockets) if each)

    def take_expired(self) -> Sequence[Link]:
        """Close the sockets whose time is over; return such links, of which some may have been closed meanwhile."""
        if not self.links and not self.sockets:
            return ()
        now_ms = self._clock.monotonic_ms()
        _close(_take_until(now_ms, self.sockets))
        return _take_until(now_ms, self.links)

    def close(self) -> None:
        """Close the sockets."""
        _close(_take_until(NEVER_MS, self.sockets))


def _take_until(now_ms: int, waiting: deque[tuple[int, T]]) -> list[T]:
    expired = []
    while waiting and waiting[0][0] <= now_ms:
        expired.append(waiting.popleft()[1])
    return expired


def _close(sockets: Sequence[socket.socket]) -> None:
    scratch = bytearray(_SCRATCH_BYTES if sockets else 0)
    for sock in sockets:
        with suppress(OSError):
            if _is_end_stuck(sock):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_WHEN_CLOSED)
            else:
                drain_socket(sock, scratch)
        sock.close()


def _is_end_stuck(sock: socket.socket) -> bool:
    """Return whether the end was not sent, which systems other than Linux do not tell."""
    if sys.platform != "linux":
        return True
    return any(fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, bytes(4)))
