"""The reactor and peers that do not read: limits on memory and time, lingering, and no delay for other connections."""

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from line_protocol import LINE, echo, read_all
from ottla.ports import Chunk
from ottla.runtime.clock import SystemClock
from ottla.runtime.lingering import LINGER_MS
from ottla.runtime.link import SocketOptions
from ottla.runtime.ready_connections import FEW


class SkippingClock(SystemClock):
    """The system's clock, which the test can advance."""

    skipped_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.skipped_ms


def test_peer_that_reads_no_responses_is_closed_like_an_idle_one(serve: Callable[..., Any]) -> None:
    clock = SkippingClock()
    with (
        serve(lambda line: [line * 16_000_000], clock, SocketOptions(idle_ms_max=600_000)) as served,
        served.connect() as silent,
        served.connect() as other,
    ):
        silent.sendall(b"x\n")
        served.wait_for("back-pressured")
        other.sendall(b"pause\n")
        served.wait_for("paused")
        unread_bytes = served.network_metrics.unread_bytes

        def is_closed_after_a_while() -> bool:
            # The system may have taken some more bytes just now.
            clock.skipped_ms += 600_000
            served.reactor.post(lambda: None)
            return any("closed: its peer has read none of" in event for event in served.core.events)

        served.wait_until(is_closed_after_a_while)

        assert unread_bytes > 1_000_000
        assert served.network_metrics.unread_bytes == 0
        assert served.network_metrics.closed_unread == {"idle": 1}
        assert len(served.reactor._links) == 1


def test_further_requests_do_not_renew_a_peer_that_does_not_read(serve: Callable[..., Any]) -> None:
    clock, requested = SkippingClock(), list[bytes]()

    def respond(line: bytes) -> list[Chunk]:
        requested.append(line)
        return [bytes(100_000) if line == b"much" else b"."]

    with serve(respond, clock, SocketOptions(idle_ms_max=600_000)) as served, served.connect() as silent:

        def is_closed() -> bool:
            return any("closed: its peer has read none of" in event for event in served.core.events)

        def request(line: bytes) -> None:
            count = len(requested)
            with suppress(OSError):
                silent.sendall(line + LINE)
            served.wait_until(lambda: is_closed() or len(requested) > count)

        while all(link.outbox_bytes < 300_000 for link in list(served.reactor._links.values())):
            request(b"much")
        for _ in range(10):
            clock.skipped_ms += 300_000
            request(b"little")

        assert is_closed()


def test_peers_that_do_not_read_share_a_bounded_memory(serve: Callable[..., Any]) -> None:
    options = SocketOptions(unread_bytes_max=76_000_000)
    with (
        serve(lambda line: [line if line == b"small" else line * 32_000_000], None, options) as served,
        served.connect() as first,
        served.connect() as second,
        served.connect() as third,
        served.connect() as good,
    ):
        for number, silent in enumerate((first, second, third), 1):
            silent.sendall(b"x\n")
            served.wait_until(lambda number=number: served.core.events.count("back-pressured") == number)
        served.wait_until(lambda: served.network_metrics.closed_unread["memory"] == 1)
        good.sendall(b"small\n")

        assert read_all(good, 5) == b"small"
        assert 40_000_000 < served.network_metrics.unread_bytes <= 76_000_000


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system does not bound its buffers")
def test_kernel_buffers_little_for_a_peer_that_does_not_read(serve: Callable[..., Any]) -> None:
    """No limit of ours counts the kernel's memory, and megabytes for each of many peers would exceed the node's own."""
    large = b"x" * 8_000_000

    with serve(lambda line: [line * 8_000_000]) as served, served.connect() as silent:
        silent.sendall(b"x\n")
        served.wait_for("back-pressured")
        samples = [0, 1]
        while samples[-1] != samples[-2]:
            time.sleep(0.2)
            samples.append(served.network_metrics.unread_bytes)

        assert samples[-1] > 6_800_000
        assert read_all(silent, len(large)) == large


def test_closed_connection_lingers_for_a_bounded_time(
    serve: Callable[..., Any],
) -> None:
    clock = SkippingClock()
    with serve(lambda line: [line * 16_000_000], clock) as served, served.connect() as idle, served.connect() as other:
        other.sendall(b"pause\n")
        served.wait_for("paused")
        idle.sendall(b"x\nbye\n")
        served.wait_until(lambda: len(served.reactor._lingering.links) == 1)
        assert len(served.reactor._links) == 2
        clock.skipped_ms = LINGER_MS
        served.reactor.post(lambda: None)

        served.wait_until(lambda: len(served.reactor._links) == 1)


def test_bytes_that_join_a_response_in_a_group_do_not_count_as_unread(serve: Callable[..., Any]) -> None:
    """Otherwise a busy connection would be closed after connections.max.idle.ms, as its peer seems to read nothing."""

    def respond(line: bytes) -> list[Chunk]:
        if line == b"other":
            served.reactor.send(1, [b"more\n"])  # another client's request completes a request of the first connection
        return echo(line)

    with serve(respond) as served, ExitStack() as stack:
        first, *others = [stack.enter_context(served.connect()) for _ in range(2 * FEW)]
        served.wait_until(lambda: served.core.events.count("accepted on LINES") == 2 * FEW)
        with served.held():
            for sock in (first, *others):
                sock.sendall(b"first\n" if sock is first else b"other\n")
        read_all(first, len(b"first\n") + len(others) * len(b"more\n"))
        for sock in others:
            read_all(sock, len(b"other\n"))
        served.wait_until(lambda: not served.network_metrics.unread_bytes)

        assert not served.reactor._unsent_limits.links


def test_slow_peer_does_not_delay_other_connections(serve: Callable[..., Any]) -> None:
    large = b"x" * 8_000_000

    with (
        serve(lambda line: [large if line == b"large" else line + LINE]) as served,
        served.connect() as slow,
        served.connect() as other,
    ):
        slow.sendall(b"large\n")
        other.sendall(b"quick\n")
        quick = read_all(other, 6)
        is_backpressured = "back-pressured" in served.core.events
        received = read_all(slow, len(large))
        slow.sendall(b"again\n")
        after = read_all(slow, 6)

    assert quick == b"quick\n"
    assert is_backpressured
    assert received == large
    assert after == b"again\n"
    assert served.core.events.count("drained") == 1


def read_to_end(sock: socket.socket) -> None:
    while sock.recv(1024 * 1024):
        pass


def test_connection_that_is_closed_at_once_ends_in_order(serve: Callable[..., Any]) -> None:
    """A reset is sent once: a peer to which the network lost it would wait for its own time-out."""
    with serve(lambda line: [b"answer\n"]) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        sock.recv(100)
        connection = next(iter(served.reactor._links))
        served.reactor.post(lambda: served.reactor.close_connection(connection, at_once=True))
        served.wait_until(lambda: connection not in served.reactor._links)
        if served.secured is None:
            sock.sendall(b"bytes that the node does not read")
        served.wait_until(lambda: not served.reactor._lingering.sockets)

        assert sock.recv(100) == b""


def test_end_that_is_stuck_becomes_a_reset(serve: Callable[..., Any]) -> None:
    """Behind bytes that the peer does not acknowledge, an orderly end is not sent."""
    with serve(lambda line: [bytes(8 * 1024 * 1024)]) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        sock.recv(1)
        connection = next(iter(served.reactor._links))
        served.wait_until(lambda: served.reactor.unsent_bytes(connection) > 0)
        served.reactor.post(lambda: served.reactor.close_connection(connection, at_once=True))
        served.wait_until(lambda: connection not in served.reactor._links)
        served.wait_until(lambda: not served.reactor._lingering.sockets)

        # A client of TLS may read the end of that first.
        with pytest.raises(ConnectionResetError) if served.secured is None else suppress(ConnectionResetError):
            read_to_end(sock)


def test_aborted_connection_frees_unsent_bytes(serve: Callable[..., Any]) -> None:
    with serve(lambda line: [bytes(8 * 1024 * 1024)]) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        sock.recv(1)
        connection = next(iter(served.reactor._links))
        served.wait_until(lambda: served.reactor.unsent_bytes(connection) > 0)
        served.reactor.post(lambda: served.reactor.abort_connection(connection))

        served.wait_for("closed: its memory is needed")
        assert served.reactor.unsent_bytes(connection) == 0
