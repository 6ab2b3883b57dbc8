"""Peers of an attack: one class for each kind of hostile connection.

A peer sends and receives on its own socket only; `benchmarks.attackers` opens the connections and calls ``on_event``.
"""

import base64
import contextlib
import secrets
import selectors
import socket
import ssl
import struct
import time
from collections import Counter
from typing import Final, Protocol

from benchmarks import frames, large_requests
from benchmarks.either_system import MECHANISM
from benchmarks.logins import AUTHENTICATE, HANDSHAKE
from benchmarks.logins import frame as login_frame

LOAD_TOPIC: Final = "load"
LOAD_PARTITIONS: Final = 6
WIDE_TOPIC: Final = "wide"
_READ_BYTES: Final = 1 << 16
"""Small, since other processes on the core wait for the end of a call that copies."""
_SLOW_FRAME_BYTES: Final = 1_000_000


class AttackState(Protocol):
    """State of an attack that its peers share: counts, TLS, and the source of large requests."""

    counts: Counter[str]
    context: ssl.SSLContext
    hello: bytes
    large_client: large_requests.Client | None
    served_at_s: list[float]


class Peer:
    """One connection of an attack; ``on_event`` handles an event of its socket, and returns False to close it."""

    events = selectors.EVENT_READ

    def __init__(self, attack: AttackState, sock: socket.socket) -> None:
        self.attack = attack
        self.sock = sock

    def begin(self) -> None:
        """Start, after the connection is established."""

    def on_event(self) -> bool:
        return bool(self.sock.recv(65536))


class Idle(Peer):
    """Sends one ApiVersions request, and then nothing."""

    def begin(self) -> None:
        self.sock.send(frames.API_VERSIONS_REQUEST)


class Visit(Peer):
    """Sends one ApiVersions request, and closes."""

    def begin(self) -> None:
        self.sock.send(frames.API_VERSIONS_REQUEST)

    def on_event(self) -> bool:
        self.attack.counts["answered" if self.sock.recv(65536) else "refused"] += 1
        return False


class SlowFrame(Peer):
    """Announces a Produce of 1 MB and sends a byte per second."""

    def begin(self) -> None:
        self.sock.send(struct.pack(">ihhi", _SLOW_FRAME_BYTES, frames.PRODUCE, 7, 1))

    def trickle(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.send(b"x")


class Unread(Peer):
    """Repeats a request with a large response, and never reads."""

    events = selectors.EVENT_WRITE
    request = b""

    def begin(self) -> None:
        self._left = memoryview(self.request)

    def on_event(self) -> bool:
        sent = self.sock.send(self._left)
        self._left = self._left[sent:] or memoryview(self.request)
        return True


class UnreadMetadata(Unread):
    request = frames.metadata_request(WIDE_TOPIC)


class UnreadRecords(Unread):
    request = frames.fetch_request(LOAD_TOPIC, dict.fromkeys(range(LOAD_PARTITIONS), 0), 50 << 20)


class Pipelined(Peer):
    """Sends small requests without a pause, thousands of them ahead of their responses, and reads those."""

    events = selectors.EVENT_READ | selectors.EVENT_WRITE
    requests = frames.API_VERSIONS_REQUEST * 5_000

    def begin(self) -> None:
        self._left = memoryview(self.requests)

    def on_event(self) -> bool:
        with contextlib.suppress(BlockingIOError):
            self._left = self._left[self.sock.send(self._left) :] or memoryview(self.requests)
        size = self.sock.recv_into(Everything.scratch)
        self.attack.counts["MB"] += size
        return size > 0


class Everything(Peer):
    """Fetches all records from the beginning, reads them as fast as it can, and repeats that."""

    request = UnreadRecords.request
    scratch = bytearray(_READ_BYTES)

    def begin(self) -> None:
        self._missing = 0
        self.sock.send(self.request)

    def on_event(self) -> bool:
        if self._missing == 0:
            size = self.sock.recv(4)
            if len(size) < 4:
                return False
            self._missing = struct.unpack(">i", size)[0]
            return True
        with memoryview(self.scratch) as view:
            count = self.sock.recv_into(view[: min(self._missing, _READ_BYTES)])
        self._missing -= count
        self.attack.counts["MB"] += count
        if self._missing == 0 and count:
            self.sock.send(self.request)
        return count > 0


class Repeated(Peer):
    """Sends one large request, reads its response, and sends the next one."""

    events = selectors.EVENT_READ | selectors.EVENT_WRITE

    def begin(self) -> None:
        assert self.attack.large_client is not None, "an attack with such peers has one"
        self._requests = self.attack.large_client(self.attack.counts)
        self._left = memoryview(next(self._requests))
        self._start = b""
        self._missing = 0

    def on_event(self) -> bool:
        if self._left:
            self._left = self._left[self.sock.send(self._left) :]
            return True
        if self._missing == 0:
            size = self.sock.recv(4, socket.MSG_WAITALL)
            if len(size) < 4:
                return False
            self._missing = struct.unpack(">i", size)[0]
            return True
        with memoryview(Everything.scratch) as view:
            count = self.sock.recv_into(view[: min(self._missing, _READ_BYTES)])
            self._start += view[: min(count, large_requests.RESPONSE_START_BYTES - len(self._start))]
        self._missing -= count
        if self._missing == 0 and count:
            self.attack.counts["requests"] += 1
            self.attack.served_at_s.append(time.perf_counter())
            self._left = memoryview(self._requests.send(self._start))
            self._start = b""
        return count > 0


class WrongPassword(Peer):
    """Authenticates with SCRAM as another user each time, with a wrong proof."""

    def begin(self) -> None:
        self._nonce = secrets.token_hex(12)
        self._responses = 0
        name = MECHANISM.encode()
        self.sock.send(login_frame(HANDSHAKE, struct.pack(">h", len(name)) + name))

    def on_event(self) -> bool:
        response = self.sock.recv(4_096)
        if not response:
            self.attack.counts["refused"] += 1
            return False
        self._responses += 1
        if self._responses == 1:
            self._send(f"n,,n={'alice' if secrets.randbelow(2) else secrets.token_hex(4)},r={self._nonce}".encode())
        elif self._responses == 2:
            start = response.index(b"r=" + self._nonce.encode())
            nonce = response[start : response.index(b",", start)]
            self._send(b"c=biws," + nonce + b",p=" + base64.b64encode(secrets.token_bytes(64)))
        return True

    def _send(self, token: bytes) -> None:
        self.sock.send(login_frame(AUTHENTICATE, struct.pack(">i", len(token)) + token))


class HalfLogin(Peer):
    """Announces the largest frame that is allowed before authentication, sends less, and waits until it is closed."""

    def begin(self) -> None:
        self.sock.send(struct.pack(">i", 512 * 1024) + struct.pack(">hhih", AUTHENTICATE, 1, 1, -1))
        self.sock.send(bytes(100 * 1024))


class HelloOnly(Peer):
    """Starts a TLS handshake as clients do, and never continues."""

    def begin(self) -> None:
        self.sock.send(self.attack.hello)

    def on_event(self) -> bool:
        if self.sock.recv(65536):
            return True
        self.attack.counts["closed by the node"] += 1
        return False


class FullHandshake(Peer):
    """Completes a TLS handshake; closes then unless ``stays``."""

    stays = False

    def begin(self) -> None:
        self._is_through = False
        self.sock = self.attack.context.wrap_socket(
            self.sock, do_handshake_on_connect=False, suppress_ragged_eofs=False
        )
        self.on_event()

    def on_event(self) -> bool:
        try:
            if self._is_through:
                return bool(self.sock.recv(4_096))
            self.sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        self._is_through = True
        self.attack.counts["finished"] += 1
        return self.stays


class SecuredIdle(FullHandshake):
    stays = True
