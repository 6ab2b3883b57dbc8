"""`TlsStream`: a TLS connection with a socket's methods, so that the reactor treats both alike.

OpenSSL works on memory buffers here, not on the socket: many records go to the kernel in one call, and only bytes wait
for the socket, never an unfinished operation of the library. So a stream needs write events exactly while it
`has_unsent` bytes, and read events always.

`recv_into`, `send` and `sendmsg` behave as a non-blocking socket's: they raise BlockingIOError when nothing can be read
or written.
"""

import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.ports import Buffer
from ottla.runtime.link import drain_socket
from ottla.tls.distinguished_name import subject_of
from ottla.tls.errors import TlsError, explain, explain_first_bytes

RECORD_BYTES: Final = 16 * 1024
"""Maximum payload of a TLS record."""
SEND_BYTES_MAX: Final = 256 * 1024
"""Maximum of encrypted bytes before the socket has to take them."""
_RECEIVE_BYTES_MAX: Final = 256 * 1024
"""Maximum of bytes decrypted in one call, for fairness among connections."""
_SCRATCH_BYTES: Final = 64 * 1024
_PROTOCOL_BYTES_MAX: Final = 64 * 1024
"""Maximum of unsent bytes that the library sends on its own, such as responses to KeyUpdate; above it the connection
fails, as its peer provokes responses and does not read them.
"""
_FIRST_BYTES: Final = 8
_NOTHING: Final = memoryview(b"")


class Scratch:
    """Buffers that all streams of a loop share within one call: for received encrypted and sent plain bytes."""

    __slots__ = ("encrypted", "plain")

    def __init__(self) -> None:
        self.encrypted = memoryview(bytearray(_SCRATCH_BYTES))
        self.plain = memoryview(bytearray(SEND_BYTES_MAX))


class TlsStream:
    """TLS connection on a non-blocking socket.

    Args of the constructor:
        sock: connected and non-blocking; the caller watches and closes it.
        context: TLS context of the listener.
        server_name: None on the server's side; else the name or address that the client connects to.
        scratch: buffers that the streams of a loop share.
    """

    __slots__ = (
        "_context",
        "_first_bytes",
        "_has_ended",
        "_has_started",
        "_incoming",
        "_is_stepping",
        "_needs_more",
        "_outcome",
        "_outgoing",
        "_plain",
        "_scratch",
        "_server_name",
        "_sock",
        "_tls",
        "_unsent",
        "has_produced_output",
    )

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, server_name: str | None, scratch: Scratch
    ) -> None:
        self._sock = sock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._context = context
        self._server_name = server_name
        self._tls: ssl.SSLObject
        """Created with the peer's first bytes: a silent connection costs neither its time nor its memory."""
        self._scratch = scratch.encrypted
        self._plain = scratch.plain
        self._has_started = False
        self._unsent = _NOTHING
        self._first_bytes = b""
        self._needs_more = True
        self._has_ended = False
        self._is_stepping = False
        """Whether a step is in progress: until `conclude`, the output buffer belongs to the step's thread."""
        self._outcome: bool | Exception = False
        """Result of the handshake's last step: whether the handshake is complete, or the error."""
        self.has_produced_output = False
        """Whether the handshake's last step produced bytes for the peer."""

    # --- the handshake --------------------------------------------------------------------------------------------

    def receive_handshake_bytes(self) -> None:
        """Read the bytes for the handshake's next `step`; a client's first step needs none.

        Raises:
            TlsError: the peer hung up.
            BlockingIOError: no bytes have arrived.
            OSError: the connection failed.
        """
        if self._server_name is not None and not self._has_started:
            self._is_stepping = True
            return
        size = self._sock.recv_into(self._scratch)
        if size == 0:
            raise TlsError("the peer hung up during the TLS handshake")
        received = self._scratch[:size]
        if len(self._first_bytes) < _FIRST_BYTES:
            self._first_bytes += received[: _FIRST_BYTES - len(self._first_bytes)]
        self._incoming.write(received)
        self._is_stepping = True

    def step(self) -> None:
        """Advance the handshake; `conclude` returns the result. It may run on another thread; `flush` waits for it."""
        try:
            if not self._has_started:
                self._has_started = True
                self._tls = self._context.wrap_bio(
                    self._incoming,
                    self._outgoing,
                    server_side=self._server_name is None,
                    server_hostname=self._server_name,
                )
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._outcome = False
        except Exception as error:
            # Every exception, also a defect of ours: it must not end the thread, which runs all handshakes.
            self._outcome = error
        else:
            self._outcome = True

    def conclude(self) -> bool:
        """Send the step's output to the peer; return whether the handshake is complete.

        Raises:
            TlsError: the handshake failed; the alert was sent as far as the socket took it.
            OSError: the connection failed.
        """
        outcome, self._outcome, self._is_stepping = self._outcome, False, False
        self.has_produced_output = self._outgoing.pending > 0
        if isinstance(outcome, Exception):
            self._send_alert()
            message = explain_first_bytes(self._first_bytes) if self._server_name is None else None
            raise TlsError(message or explain(outcome)) from outcome
        self._needs_more = not outcome
        self.flush()
        return outcome

    def _send_alert(self) -> None:
        """Send the library's alert; then drain the socket, so that no reset overtakes the alert."""
        with suppress(OSError):
            self.flush()
            self._sock.shutdown(socket.SHUT_WR)
            drain_socket(self._sock, self._scratch)

    def subject(self) -> str | None:
        """Return the distinguished name of the peer's certificate; None if it presented none."""
        certificate = self._tls.getpeercert(binary_form=True)
        return None if certificate is None else subject_of(certificate)

    # --- methods of a socket --------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether `recv_into` has buffered bytes, of which a selector knows nothing."""
        return self._has_ended or (not self._needs_more and (self._incoming.pending > 0 or self._tls.pending() > 0))

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket, and write events are needed."""
        return len(self._unsent) > 0 and not self._is_stepping

    @property
    def unsent_bytes(self) -> int:
        """Number of encrypted bytes that wait for the socket."""
        return len(self._unsent) + self._outgoing.pending

    def recv_into(self, buffer: memoryview) -> int:
        """Read available bytes into ``buffer``; return their number, 0 when the peer has ended the stream."""
        if self._has_ended:
            return 0
        filled, wanted = 0, min(len(buffer), _RECEIVE_BYTES_MAX)
        is_drained = False
        while filled < wanted and not self._has_ended:
            if self._needs_more or not (self._incoming.pending or self._tls.pending()):
                if is_drained:
                    break
                received = self._receive()
                if received <= 0:
                    break
                is_drained = received < len(self._scratch)
            filled = self._decrypt(buffer, filled, wanted)
            if self._outgoing.pending:
                self._send_protocol_bytes()
        if filled or self._has_ended:
            return filled
        raise BlockingIOError

    def _send_protocol_bytes(self) -> None:
        """Send what the library produced on its own; data of the caller waits only in ``_unsent``."""
        self.flush()
        if self._outgoing.pending > _PROTOCOL_BYTES_MAX:
            raise TlsError("the peer keeps requesting TLS responses and does not read them")

    def _receive(self) -> int:
        """Read encrypted bytes from the socket; return 0 at the stream's end, -1 when there are none."""
        try:
            size = self._sock.recv_into(self._scratch)
        except BlockingIOError:
            return -1
        if size == 0:
            self._has_ended = True
            return 0
        self._incoming.write(self._scratch[:size])
        self._needs_more = False
        return size

    def _decrypt(self, buffer: memoryview, filled: int, wanted: int) -> int:
        """Decrypt into ``buffer`` after its first ``filled`` bytes, up to ``wanted``; return the new fill level."""
        tls, incoming = self._tls, self._incoming
        try:
            while filled < wanted:
                # `read` returns one record per call; many clients send records of a few thousand bytes.
                size: int = tls.read(wanted - filled, buffer[filled:wanted])  # type: ignore[assignment]
                if size == 0:
                    self._has_ended = True
                    break
                filled += size
                if not incoming.pending and not tls.pending():
                    break
        except ssl.SSLWantReadError:
            self._needs_more = True
        except ssl.SSLZeroReturnError:
            self._has_ended = True
        except ssl.SSLError as error:
            self._send_alert()
            raise TlsError(explain(error)) from error
        return filled

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Encrypt up to `SEND_BYTES_MAX` of ``data`` and send it; return the number of encrypted bytes of ``data``.

        Encrypted bytes that the socket does not take are kept: see `has_unsent` and `flush`.
        """
        self.flush()
        if self._unsent:
            raise BlockingIOError
        view = memoryview(data)[:SEND_BYTES_MAX]
        size, written = len(view), 0
        try:
            while written < size:
                written += self._tls.write(view[written : written + RECORD_BYTES])
        except ssl.SSLError as error:
            raise TlsError(explain(error)) from error
        self.flush(flags)
        return size

    def sendmsg(self, buffers: Sequence[Buffer], _ancillary: Sequence[object] = (), flags: int = 0) -> int:
        """Send as many of ``buffers`` as fit into `SEND_BYTES_MAX`, as `send` does; small ones share records."""
        gathered: list[Buffer] = []
        size = 0
        for buffer in buffers:
            if gathered and size + len(buffer) > SEND_BYTES_MAX:
                break
            gathered.append(buffer)
            size += len(buffer)
        return self.send(gathered[0] if len(gathered) == 1 else b"".join(gathered), flags)

    def send_file(self, descriptor: int, position: int, size_bytes: int) -> int:
        """Send bytes of a file, as `send` does; return 0 if the file ends before them."""
        self.flush()
        if self._unsent:
            raise BlockingIOError
        read = os.preadv(descriptor, [self._plain[:size_bytes]], position)
        return self.send(self._plain[:read]) if read else 0

    def flush(self, flags: int = 0) -> None:
        """Send as many of the encrypted bytes as the socket takes; see `has_unsent`.

        Raises:
            OSError: the connection failed.
        """
        if self._is_stepping:
            return
        if self._outgoing.pending and not self._unsent:
            self._unsent = memoryview(self._outgoing.read())
        try:
            while self._unsent:
                sent = self._sock.send(self._unsent, flags)
                if sent == len(self._unsent) and self._outgoing.pending:
                    self._unsent = memoryview(self._outgoing.read())
                else:
                    self._unsent = self._unsent[sent:] if sent < len(self._unsent) else _NOTHING
        except BlockingIOError:
            pass

    def end(self) -> None:
        """Send close_notify, as far as the socket takes it."""
        with suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()  # without waiting for the peer's close_notify
        with suppress(OSError):
            self.flush()
