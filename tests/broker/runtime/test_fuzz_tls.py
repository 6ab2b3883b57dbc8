"""Bytes on a listener with TLS: in place of a handshake, within it, and in place of the records after it.

A stream ends with a `TlsError` of one bounded line or waits for more bytes; the library raises nothing else, and only
data that the peer sent is read. A reactor serves its other connections as before.
"""

import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from fuzz_values import FRAMES_PER_VERSION, LENGTHS
from ottla.runtime.tls_stream import Scratch, TlsStream
from ottla.tls.errors import TlsError

TRIALS = FRAMES_PER_VERSION * 20
RECORD_TYPES = (20, 21, 22, 23, 24, 0, 255)
"""change_cipher_spec, alert, handshake, application_data, heartbeat, and two invalid types."""


class Client:
    """A client's side of TLS in memory, whose records can be corrupted in transit."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def step(self, received: bytes) -> bytes:
        """Process received bytes; return the bytes to send."""
        self.incoming.write(received)
        with suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def encrypt(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self.outgoing.read()


def broken(random_source: random.Random, data: bytes) -> bytes:
    """Return ``data`` with one random mutation, or other bytes."""
    changed = bytearray(data)
    at = random_source.randrange(len(data) + 1)
    match random_source.randrange(7):
        case 0:
            return random_source.randbytes(random_source.randrange(1, 600))
        case 1:
            return data[:at]
        case 2:
            changed[at:at] = random_source.randbytes(random_source.randrange(1, 9))
        case 3:
            changed[at : at + 4] = random_source.choice(LENGTHS)
        case 4:
            for _ in range(random_source.randrange(1, 4) if data else 0):
                changed[random_source.randrange(len(changed))] ^= 1 << random_source.randrange(8)
        case 5:
            size = random_source.choice((0, 1, 2, 40, 2**14, 2**14 + 300))
            claimed = random_source.choice((size, size, 0, 0xFFFF))
            return (
                bytes((random_source.choice(RECORD_TYPES), 3, 3))
                + claimed.to_bytes(2, "big")
                + random_source.randbytes(size)
            )
        case _:
            del changed[at : at + random_source.randrange(1, 9)]
    return bytes(changed)


@contextmanager
def new_stream(context: ssl.SSLContext, scratch: Scratch) -> Iterator[tuple[TlsStream, socket.socket]]:
    here, peer = socket.socketpair()
    with here, peer:
        here.setblocking(False)
        peer.setblocking(False)
        yield TlsStream(here, context, server_name=None, scratch=scratch), peer


def expect_bounded(error: TlsError) -> None:
    assert str(error).isprintable(), str(error)
    assert len(str(error)) < 500


def shake_hands(stream: TlsStream, peer: socket.socket, client: Client, spoil: Callable[[bytes], bytes]) -> bool:
    """Run the handshake as far as it gets; return whether the stream's side is complete."""
    received = b""
    for _ in range(6):
        try:
            sent = spoil(client.step(received))
        except ssl.SSLError:
            return False  # the client has failed: it received an alert
        with suppress(OSError):
            peer.sendall(sent)
        try:
            stream.receive_handshake_bytes()
        except BlockingIOError:
            return False
        stream.step()
        if stream.conclude():
            # In TLS 1.2 the server sends the last message of the handshake.
            with suppress(BlockingIOError, ssl.SSLError):
                client.step(peer.recv(2**16))
            return True
        try:
            received = peer.recv(2**16)
        except BlockingIOError:
            return False
    return False


@pytest.mark.parametrize("seed", range(2))
def test_corrupt_handshake_only_ends_the_connection(seed: int, secured: Any) -> None:
    random_source, scratch = random.Random(seed), Scratch()
    server, context = secured.as_server("LINES"), secured.client_context()
    outcomes = {"through": 0, "failed": 0, "waiting": 0}
    for _ in range(TRIALS):
        spoiled_step = random_source.randrange(3)
        steps = iter(range(10))

        def spoil(data: bytes, spoiled_step: int = spoiled_step, steps: Iterator[int] = steps) -> bytes:
            return broken(random_source, data) if next(steps) == spoiled_step else data

        with new_stream(server, scratch) as (stream, peer):
            try:
                outcome = "through" if shake_hands(stream, peer, Client(context), spoil) else "waiting"
            except TlsError as error:
                expect_bounded(error)
                outcome = "failed"
            outcomes[outcome] += 1

    assert outcomes["failed"] > TRIALS // 8
    assert outcomes["waiting"] > 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_corrupt_records_only_end_the_connection(version: ssl.TLSVersion, secured: Any) -> None:
    random_source, scratch = random.Random(int(version)), Scratch()
    server, context = secured.as_server("LINES"), secured.client_context(version=version)
    buffer = memoryview(bytearray(2**16))
    for _ in range(max(2, TRIALS // 16)):
        with new_stream(server, scratch) as (stream, peer):
            client = Client(context)
            assert shake_hands(stream, peer, client, bytes)
            sent, meant, received = b"", b"", b""
            is_intact = True
            try:
                for _ in range(8):
                    data = random_source.randbytes(random_source.choice((1, 40, 5_000)))
                    meant += data
                    record = client.encrypt(data)
                    if is_intact and random_source.random() < 0.8:
                        sent += data
                    else:
                        is_intact, record = False, broken(random_source, record)
                    with suppress(OSError):
                        peer.sendall(record)
                    with suppress(BlockingIOError):
                        size = stream.recv_into(buffer)
                        received += buffer[:size]
            except TlsError as error:
                assert not is_intact
                expect_bounded(error)

            # Records are authenticated: a corrupt one is never read, even if complete and followed by others.
            assert meant.startswith(received)
            assert received.startswith(sent)


def test_loop_serves_other_connections_next_to_noise(secured: Any, serve_secured: Callable[..., Any]) -> None:
    random_source = random.Random(1)
    with serve_secured(lambda line: [line + b"\n"], secured) as served, served.connect() as honest:
        for _ in range(max(10, TRIALS // 8)):
            with served.connect_plain() as noisy:
                noisy.sendall(broken(random_source, bytes((22, 3, 1)) + random_source.randbytes(300)))
        for _ in range(max(4, TRIALS // 40)):
            with served.connect() as secure:
                secure.sendall(b"first\n")
                plain = socket.socket(fileno=secure.detach())
                with plain:
                    plain.sendall(broken(random_source, random_source.randbytes(200)))
        honest.sendall(b"still there\n")

        assert honest.recv(100) == b"still there\n"
        served.wait_until(lambda: served.metrics.open_handshakes == 0, "every handshake has ended")
