"""What a stream keeps for a peer that does not read is bounded, whatever the peer has the library say."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ottla.runtime.tls_stream import SEND_BYTES_MAX, Scratch, TlsStream
from ottla.tls.errors import TlsError


class KeyUpdates:
    """Stands for OpenSSL: whatever comes asks for an answer of the same length, and holds nothing to read."""

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
    """A stream that is through its handshake, and its peer."""
    here, peer = socket.socketpair()
    with here, peer:
        here.setblocking(False)
        context: Any = KeyUpdates()
        stream = TlsStream(here, context, server_name=None, scratch=Scratch())
        peer.send(b"hello")
        stream.hear()
        stream.step()
        assert stream.conclude()
        yield stream, peer


def ask(stream: TlsStream, peer: socket.socket, size_bytes: int, *, times: int = 1) -> None:
    for _ in range(times):
        peer.send(b"k" * size_bytes)
        with suppress(BlockingIOError):
            stream.recv_into(memoryview(bytearray(1_024)))


def test_a_peer_that_asks_for_answers_and_does_not_read_them_is_left(pair: tuple[TlsStream, socket.socket]) -> None:
    with pytest.raises(TlsError, match="answers on and on"):
        ask(*pair, 32_000, times=100)


def test_a_peer_that_reads_its_answers_may_ask_on(pair: tuple[TlsStream, socket.socket]) -> None:
    stream, peer = pair
    for _ in range(100):
        ask(stream, peer, 32_000)
        peer.recv(32_000)

    assert not stream.has_unsent


def test_what_was_sent_to_a_slow_peer_is_none_of_its_answers(pair: tuple[TlsStream, socket.socket]) -> None:
    stream, peer = pair
    with suppress(BlockingIOError):
        while True:
            stream.send(bytes(SEND_BYTES_MAX))
    assert stream.has_unsent

    ask(stream, peer, 1_000)


class Handshake:
    """Stands for OpenSSL: each step says more than a socket takes, or fails in a way that nobody foresaw."""

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


def test_nothing_is_sent_while_a_step_is_in_hand_on_another_thread() -> None:
    here, peer = socket.socketpair()
    with here, peer:
        stream = new_handshake(here, ssl.SSLWantReadError())
        peer.send(b"hello")
        stream.hear()
        stream.step()
        assert not stream.conclude()
        assert stream.has_unsent
        left = stream.unsent_bytes

        peer.send(b"more")
        stream.hear()
        peer.recv(100_000)
        assert not stream.has_unsent, "the socket is not watched meanwhile"
        stream.flush()
        assert stream.unsent_bytes == left

        stream.step()
        stream.conclude()
        assert stream.has_unsent
        assert left < stream.unsent_bytes < left + (1 << 20)


def test_a_step_that_fails_unforeseen_ends_its_handshake_and_no_thread() -> None:
    here, peer = socket.socketpair()
    with here, peer:
        stream = new_handshake(here, RuntimeError("a defect"))
        peer.send(b"hello")
        stream.hear()
        stream.step()

        with pytest.raises(TlsError, match="does not speak TLS"):
            stream.conclude()
