"""A stream's unsent bytes are bounded for a peer that does not read, whatever responses it provokes."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ottla.runtime.tls_stream import SEND_BYTES_MAX, Scratch, TlsStream
from ottla.tls.errors import TlsError


class KeyUpdates:
    """Fake OpenSSL: every received message provokes a response of the same length, and has no data to read."""

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **_: object) -> "KeyUpdates":
        self.incoming = incoming
        self.write = outgoing.write
        return self

    def do_handshake(self) -> None:
        self.incoming.read()

    def pending(self) -> int:
        return 0

    def read(self, *_: object) -> int:
        self.write(self.incoming.read())
        raise ssl.SSLWantReadError


@pytest.fixture
def pair() -> Iterator[tuple[TlsStream, socket.socket]]:
    """Yield a stream whose handshake is complete, and its peer."""
    here, peer = socket.socketpair()
    with here, peer:
        here.setblocking(False)
        context: Any = KeyUpdates()
        stream = TlsStream(here, context, server_name=None, scratch=Scratch())
        peer.send(b"hello")
        stream.receive_handshake_bytes()
        stream.step()
        assert stream.conclude()
        yield stream, peer


def send_updates(stream: TlsStream, peer: socket.socket, size_bytes: int, *, times: int = 1) -> None:
    for _ in range(times):
        peer.send(b"k" * size_bytes)
        with suppress(BlockingIOError):
            stream.recv_into(memoryview(bytearray(1_024)))


def test_peer_that_provokes_responses_and_does_not_read_them_is_disconnected(
    pair: tuple[TlsStream, socket.socket],
) -> None:
    with pytest.raises(TlsError, match="keeps requesting TLS responses"):
        send_updates(*pair, 32_000, times=100)


def test_peer_that_reads_responses_may_provoke_more(pair: tuple[TlsStream, socket.socket]) -> None:
    stream, peer = pair
    for _ in range(100):
        send_updates(stream, peer, 32_000)
        peer.recv(32_000)

    assert not stream.has_unsent


def test_data_sent_to_slow_peer_does_not_count_as_responses(pair: tuple[TlsStream, socket.socket]) -> None:
    stream, peer = pair
    with suppress(BlockingIOError):
        while True:
            stream.send(bytes(SEND_BYTES_MAX))
    assert stream.has_unsent

    send_updates(stream, peer, 1_000)


class Handshake:
    """Fake OpenSSL: each step sends more than a socket takes, or fails with an unexpected exception."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def wrap_bio(self, _: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **__: object) -> "Handshake":
        self.outgoing = outgoing
        return self

    def do_handshake(self) -> None:
        self.outgoing.write(bytes(1 << 20))
        raise self.error


def new_handshake(here: socket.socket, error: Exception) -> TlsStream:
    here.setblocking(False)
    context: Any = Handshake(error)
    return TlsStream(here, context, server_name=None, scratch=Scratch())


def test_nothing_is_sent_while_a_step_runs_on_another_thread() -> None:
    here, peer = socket.socketpair()
    with here, peer:
        stream = new_handshake(here, ssl.SSLWantReadError())
        peer.send(b"hello")
        stream.receive_handshake_bytes()
        stream.step()
        assert not stream.conclude()
        assert stream.has_unsent
        left = stream.unsent_bytes

        peer.send(b"more")
        stream.receive_handshake_bytes()
        peer.recv(100_000)
        assert not stream.has_unsent, "the socket is not watched meanwhile"
        stream.flush()
        assert stream.unsent_bytes == left

        stream.step()
        stream.conclude()
        assert stream.has_unsent
        assert left < stream.unsent_bytes < left + (1 << 20)


def test_unexpected_exception_of_a_step_ends_its_handshake_but_not_the_thread() -> None:
    here, peer = socket.socketpair()
    with here, peer:
        stream = new_handshake(here, RuntimeError("a defect"))
        peer.send(b"hello")
        stream.receive_handshake_bytes()
        stream.step()

        with pytest.raises(TlsError, match="does not speak TLS"):
            stream.conclude()
