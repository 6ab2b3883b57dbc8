"""`TlsStream`: a socket's methods for a connection under TLS, so that the reactor reads and sends as it always does.

OpenSSL works on memory here, not on the socket: many records go to the system in one call, and what waits for the
socket is only ever bytes, never a half-done step of the library. So a stream wants to write exactly while it
`has_unsent` bytes, whatever asked for them, and wants to read always.

`recv_into`, `send` and `sendmsg` do what a non-blocking socket's do: BlockingIOError when there is nothing or no room.
"""

import os
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ottla.ports import Buffer
from ottla.tls.distinguished_name import subject_of
from ottla.tls.errors import TlsError, explain, explain_first_bytes

RECORD_BYTES: Final = 16 * 1024
"""The most that one TLS record holds."""
SEND_BYTES_MAX: Final = 256 * 1024
"""At most this much is encrypted before the socket has to take it."""
_RECEIVE_BYTES_MAX: Final = 256 * 1024
"""At most this much is decrypted in one call, so that others have their turn."""
_SCRATCH_BYTES: Final = 64 * 1024
_ANSWERS_BYTES_MAX: Final = 64 * 1024
"""What the library says on its own, to KeyUpdate for one; a peer that makes it say more and does not read is left."""
_FIRST_BYTES: Final = 8
_LAST_READS_MAX: Final = 4
"""How often more is read from a peer that is refused, who may go on to send for ever."""
_NOTHING: Final = memoryview(b"")


class Scratch:
    """Memory for bytes on their way, between two calls of nobody's: encrypted ones that came, plain ones that go."""

    __slots__ = ("encrypted", "plain")

    def __init__(self) -> None:
        self.encrypted = memoryview(bytearray(_SCRATCH_BYTES))
        self.plain = memoryview(bytearray(SEND_BYTES_MAX))


class TlsStream:
    """See the module.

    Args of the constructor:
        sock: connected and non-blocking; it stays the caller's to watch and to close.
        context: of the listener.
        server_name: None for the server's side; the name or address that was dialled for a client's.
        scratch: for bytes on their way; the streams of a loop share it.
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
        "has_answered",
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
        """Made when the peer has spoken: who connects and says nothing costs neither its time nor its memory."""
        self._scratch = scratch.encrypted
        self._plain = scratch.plain
        self._has_started = False
        self._unsent = _NOTHING
        self._first_bytes = b""
        self._needs_more = True
        self._has_ended = False
        self._is_stepping = False
        """Whether a step is in hand: what the library has to say is its alone until `conclude`."""
        self._outcome: bool | Exception = False
        """What the handshake's last step came to: whether it was the last of all, or why there is none."""
        self.has_answered = False
        """Whether the handshake's last step had something to say to the peer."""

    # --- the handshake --------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take what has come for the handshake's next `step`; a client's first one needs nothing.

        Raises:
            TlsError: the peer hung up.
            BlockingIOError: nothing has come.
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
        """Compute what `conclude` tells. It may run on another thread; `flush` and `has_unsent` wait for it."""
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
            # A defect of ours as well: it must not end the thread, and with it everybody's handshakes.
            self._outcome = error
        else:
            self._outcome = True

    def conclude(self) -> bool:
        """Send what the step has for the peer; return whether the handshake is through.

        Raises:
            TlsError: it failed; the peer has been told, as far as the socket took it.
            OSError: the connection failed.
        """
        outcome, self._outcome, self._is_stepping = self._outcome, False, False
        self.has_answered = self._outgoing.pending > 0
        if isinstance(outcome, Exception):
            self._say_why()
            words = explain_first_bytes(self._first_bytes) if self._server_name is None else None
            raise TlsError(words or explain(outcome)) from outcome
        self._needs_more = not outcome
        self.flush()
        return outcome

    def _say_why(self) -> None:
        """Send the alert that the library has for the peer; read what is left, which would turn it into a reset."""
        with suppress(OSError):
            self.flush()
            self._sock.shutdown(socket.SHUT_WR)
            for _ in range(_LAST_READS_MAX):
                if not self._sock.recv_into(self._scratch):
                    return

    def subject(self) -> str | None:
        """Return the distinguished name of the peer's certificate; None when it showed none."""
        certificate = self._tls.getpeercert(binary_form=True)
        return None if certificate is None else subject_of(certificate)

    # --- what a socket does ---------------------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether `recv_into` has something to give that no selector would tell of."""
        return self._has_ended or (not self._needs_more and (self._incoming.pending > 0 or self._tls.pending() > 0))

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket, and it is to be asked for room."""
        return len(self._unsent) > 0 and not self._is_stepping

    @property
    def unsent_bytes(self) -> int:
        """How many encrypted bytes wait for the socket."""
        return len(self._unsent) + self._outgoing.pending

    def recv_into(self, buffer: memoryview) -> int:
        """Fill ``buffer`` as far as there are bytes; 0 when the peer has ended the stream."""
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
                self._answer()
        if filled or self._has_ended:
            return filled
        raise BlockingIOError

    def _answer(self) -> None:
        """Send what the library says on its own; what is asked to be sent waits only in ``_unsent``."""
        self.flush()
        if self._outgoing.pending > _ANSWERS_BYTES_MAX:
            raise TlsError("the peer asks for answers on and on and does not read them")

    def _receive(self) -> int:
        """Take encrypted bytes from the socket; 0 at its end, -1 when there are none."""
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
        """Put what is here behind the first ``filled`` bytes, up to ``wanted``; return how many there are then."""
        tls, incoming = self._tls, self._incoming
        try:
            while filled < wanted:
                # One record a call: many clients send some thousand bytes in each.
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
            self._say_why()
            raise TlsError(explain(error)) from error
        return filled

    def send(self, data: Buffer, flags: int = 0) -> int:
        """Encrypt up to `SEND_BYTES_MAX` of ``data`` and send that; return how much was taken.

        What the socket does not take is kept: see `has_unsent` and `flush`.
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
        """As `send`, of as many of ``buffers`` as go into one turn; small ones share records."""
        gathered: list[Buffer] = []
        size = 0
        for buffer in buffers:
            if gathered and size + len(buffer) > SEND_BYTES_MAX:
                break
            gathered.append(buffer)
            size += len(buffer)
        return self.send(gathered[0] if len(gathered) == 1 else b"".join(gathered), flags)

    def send_file(self, descriptor: int, position: int, size_bytes: int) -> int:
        """As `send`, of bytes that are in a file; 0 where it ends before them."""
        self.flush()
        if self._unsent:
            raise BlockingIOError
        read = os.preadv(descriptor, [self._plain[:size_bytes]], position)
        return self.send(self._plain[:read]) if read else 0

    def flush(self, flags: int = 0) -> None:
        """Give the socket what it takes of the encrypted bytes; see `has_unsent`.

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
        """Tell the peer that nothing follows (close_notify), as far as the socket takes it."""
        with suppress(ssl.SSLError, ValueError):
            self._tls.unwrap()  # its answer is not waited for
        with suppress(OSError):
            self.flush()
