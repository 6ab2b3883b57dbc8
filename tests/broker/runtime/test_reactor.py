"""The reactor over real sockets: bytes in, buffers and file slices out; slow and lost peers, timers, other threads.

Tests with `serve` run plaintext and under TLS.
"""

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from line_protocol import LINE, echo, read_all
from ottla.ports import Chunk, FileSlice
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.link import SocketOptions
from ottla.runtime.reactor import Reactor
from ottla.runtime.ready_connections import FEW
from ottla.runtime.sender import Sender
from ottla.types import Endpoint


@pytest.fixture
def served(serve: Callable[..., Any]) -> Iterator[Any]:
    with serve(echo) as running:
        yield running


def test_requests_are_served_in_order_however_they_are_split(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"on")
        sock.sendall(b"e\ntwo\nth")
        sock.sendall(b"ree\n")

        assert read_all(sock, 14) == b"one\ntwo\nthree\n"


def test_responses_that_one_action_completes_leave_in_one_call(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of requests that were served in a slice, or that a commit completes; TLS streams are not grouped."""
    flushed: list[int] = []
    flush = Sender.flush
    monkeypatch.setattr(Sender, "flush", lambda self, link: (flushed.append(link.id), flush(self, link))[1])
    with served.connect() as one, served.connect() as other:
        for sock in (one, other):
            sock.sendall(b"x\n")
            read_all(sock, 2)
        flushed.clear()
        first, second = served.reactor._links

        def complete() -> None:
            for connection in (first, second, first, first):
                served.reactor.send(connection, [b"y\n"])

        served.reactor.post(complete)
        assert read_all(one, 6) == b"y\ny\ny\n"
        assert read_all(other, 2) == b"y\n"
        assert flushed == ([first, second] if served.secured is None else [first, second, first, first])


def test_responses_of_a_tick_leave_at_its_end(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"x\n")
        read_all(sock, 2)
        [connection] = served.reactor._links
        tick = served.core.tick
        left = [b"y\n"]

        def respond() -> None:
            tick()
            if left:
                served.reactor.send(connection, [left.pop()])

        served.core.tick = respond
        served.reactor.post(lambda: None)

        assert read_all(sock, 2) == b"y\n"


@pytest.mark.parametrize("reports", [True, False])
def test_core_receives_local_address_if_configured(serve: Callable[..., Any], reports: bool) -> None:
    with serve(echo, None, SocketOptions(reports_local_address=reports)) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        read_all(sock, 2)

        assert served.core.local_address == (Endpoint("127.0.0.1", served.port) if reports else None)


def test_hang_up_is_reported_once(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"x\n")
        read_all(sock, 2)
    with served.connect() as sock:
        # Its response arrives after the loop has seen the first one's end.
        sock.sendall(b"y\n")
        read_all(sock, 2)

        assert served.core.events.count("closed: closed by the peer") == 1


@pytest.mark.parametrize("unread", [b"", b"more\n"], ids=["nothing-unread", "bytes-unread"])
@pytest.mark.parametrize("comes_late", [False, True], ids=["at-once", "after-the-loop-saw-the-bytes"])
def test_hang_up_while_reading_is_paused_is_reported_once(served: Any, unread: bytes, comes_late: bool) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system reports it only when the connection is read again")
    with served.connect() as sock, served.connect() as other:
        sock.sendall(b"pause\n")
        served.wait_for("paused")
        sock.sendall(unread)
        if comes_late:
            other.sendall(b"x\n")
            read_all(other, 2)
        sock.close()
        served.wait_for("closed: closed by the peer")
        other.sendall(b"y\n")
        read_all(other, 2)

        assert served.core.events.count("closed: closed by the peer") == 1


def test_resumed_connection_is_read_before_its_end_is_reported(served: Any) -> None:
    with served.connect() as paused, served.connect() as other:
        paused.sendall(b"pause\n")
        served.wait_for("paused")
        paused.sendall(b"unread\n")
        other.sendall(b"x\n")
        read_all(other, 2)
        other.sendall(b"go on\n")

        assert read_all(paused, 7) == b"unread\n"
        paused.close()
        served.wait_for("closed: closed by the peer")


def test_bytes_before_a_hang_up_are_read_if_the_core_still_serves_them(serve: Callable[..., Any]) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system reports it only when the connection is read again")
    received: list[bytes] = []
    with serve(lambda line: received.append(line) or echo(line)) as served:
        served.core.rest_is_served = True
        with served.connect() as paused, served.connect() as other:
            # Read the bytes that follow the handshake, so that the hang-up is orderly.
            paused.sendall(b"z\n")
            read_all(paused, 2)
            paused.sendall(b"pause\n")
            served.wait_for("paused")
            paused.sendall(b"first\nsecond\n")
            paused.close()
            served.wait_for("hung up")
            other.sendall(b"x\n")
            read_all(other, 2)
            assert served.core.events.count("hung up") == 1, "the core is not called again and again"
            assert received == [b"z", b"x"]

            other.sendall(b"go on\n")
            served.wait_for("closed: closed by the peer")

        assert received == [b"z", b"x", b"first", b"second"]


def test_core_decides_again_when_hung_up_connection_is_paused_again(serve: Callable[..., Any]) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system reports it only when the connection is read again")
    with serve(echo) as served:
        served.core.rest_is_served = True
        with served.connect() as paused:
            paused.sendall(b"pause\n")
            served.wait_for("paused")
            paused.sendall(b"more\n")
        served.wait_for("hung up")
        served.core.rest_is_served = False
        [connection] = served.reactor._links
        served.reactor.post(lambda: served.reactor.pause_reading(connection))

        served.wait_for("closed: closed by the peer")
        assert served.core.events.count("hung up") == 2


def test_queued_bytes_are_sent_before_the_core_closes(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"last\nbye\n")

        assert read_all(sock, 100) == b"last\n"


@pytest.mark.parametrize("slice_bytes", [8 << 20, 64 << 10], ids=["one-slice", "slices-of-many-partitions"])
def test_peers_that_read_files_share_an_iteration_of_the_loop(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 << 20))
    disk = OsDisk(lambda action: action())
    file = disk.open(str(path), read_only=True)
    requested: list[int] = []
    flush = Sender.flush

    def note(self: Sender, link: Any) -> None:
        before = link.outbox_bytes
        flush(self, link)
        requested.append(before - link.outbox_bytes)

    monkeypatch.setattr(Sender, "flush", note)
    with serve(lambda _: [FileSlice(file, at, slice_bytes) for at in range(0, 8 << 20, slice_bytes)]) as served:
        consumers = [served.connect() for _ in range(16)]
        served.wait_until(lambda: len([each for each in served.core.events if "accepted" in each]) == 16)
        served.wait_until(lambda: served.metrics.open_handshakes == 0)
        with served.held():
            for sock in consumers:
                sock.sendall(b"go\n")
        for sock in consumers:
            sock.settimeout(30)
            assert len(read_all(sock, 8 << 20)) == 8 << 20
            sock.close()
    disk.close()

    assert max(requested[:16]) <= (1 << 20) // 16


def test_pipelined_requests_are_read_in_slices_between_other_connections(serve: Callable[..., Any]) -> None:
    served_to: list[bytes] = []
    served_by_turn: list[int] = []

    def respond(line: bytes) -> list[Chunk]:
        served_to.append(line)
        return [line + LINE]

    with serve(respond) as served, served.connect() as busy:
        busy.sendall(b"hello\n")
        read_all(busy, 6)
        # The core reads a KiB at a time; a link reads twice per iteration, and again at its end if time is left.
        lines = [b"%0127d" % number for number in range(100)]
        with served.held():
            served_to.clear()
            served.core.tick = lambda: served_by_turn.append(len(served_to))
            busy.sendall(b"".join(line + LINE for line in lines))
        assert len(read_all(busy, 128 * 100)) == 128 * 100
        served.wait_until(lambda: bool(served_by_turn) and served_by_turn[-1] == 100)

    assert served_to == lines
    assert max(after - before for before, after in zip([0, *served_by_turn], served_by_turn, strict=False)) <= 32


def test_response_in_a_group_is_sent_to_a_peer_that_has_only_stopped_sending(serve: Callable[..., Any]) -> None:
    with serve(echo) as served, ExitStack() as stack:
        # The core reads a KiB at a time: a full buffer is followed by another read, which finds the end.
        line = b"x" * 1023 + LINE
        clients = [stack.enter_context(served.connect()) for _ in range(2 * FEW)]
        served.wait_until(lambda: served.core.events.count("accepted on LINES") == len(clients))
        with served.held():
            for sock in clients:
                sock.sendall(line)
                socket.socket.shutdown(sock, socket.SHUT_WR)  # of the TCP connection, also under TLS

        assert [read_all(sock, len(line)) for sock in clients] == [line] * len(clients)


def test_peer_that_requests_more_than_it_reads_is_served_last(serve: Callable[..., Any]) -> None:
    served_to: list[bytes] = []

    def respond(line: bytes) -> list[Chunk]:
        served_to.append(line)
        return [bytes(100_000) if line.startswith(b"large") else line + LINE]

    with serve(respond) as served, served.connect() as greedy, served.connect() as modest:
        # Its receive window takes some of them, and the rest is queued here.
        for number in range(10):
            greedy.sendall(b"large\n")
            served.wait_until(lambda number=number: len(served_to) > number)
        with served.held():
            greedy.sendall(b"large again\n")
            modest.sendall(b"modest\n")
        read_all(modest, 7)
        served.wait_until(lambda: b"large again" in served_to)

    assert served_to[10:] == [b"modest", b"large again"]


def test_rejected_connection_is_closed_at_once(served: Any) -> None:
    served.core.accepts = False
    with served.connect_plain() as sock:
        assert sock.recv(1) == b""


def test_buffers_and_file_slices_arrive_as_one_stream(serve: Callable[..., Any], tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "file").write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(tmp_path / "file"), read_only=True)

    def respond(line: bytes) -> list[Chunk]:
        return [b"<", FileSlice(file, 256, len(content) - 512), memoryview(b"|"), FileSlice(file, 0, 3), b">"]

    expected = b"<" + content[256:-256] + b"|\x00\x01\x02>"
    with serve(respond) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(expected))
    disk.close()

    assert received == expected


def test_bytes_outside_the_page_cache_arrive(serve: Callable[..., Any], tmp_path: Path) -> None:
    content = os.urandom(6_000_000)
    path = tmp_path / "file"
    path.write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(path), read_only=True)
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    with serve(lambda _: [b"<", FileSlice(file, 0, len(content)), b">"]) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(content) + 2)
    disk.close()

    assert received == b"<" + content + b">"


def test_action_posted_from_another_thread_runs_on_the_loop(served: Any) -> None:
    ran = threading.Event()
    thread: list[int] = []
    served.reactor.post(lambda: (thread.append(threading.get_ident()), ran.set()))  # type: ignore[func-returns-value, arg-type]

    assert ran.wait(30)
    assert thread == [served.thread.ident]


def test_core_is_called_after_its_deadline(new_line_core: Callable[..., Any]) -> None:
    reactor = Reactor(SystemClock())
    core = new_line_core(reactor, echo)
    core.deadline_ms = SystemClock().monotonic_ms() + 30

    reactor.run(core)
    reactor.close()

    assert core.ticks_after_deadline == 1


def test_outgoing_connection_without_listener_is_reported_closed(new_line_core: Callable[..., Any]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    reactor = Reactor(SystemClock())
    core = new_line_core(reactor, echo)
    reactor.connect(Endpoint("127.0.0.1", port), "LINES")
    core.deadline_ms = SystemClock().monotonic_ms() + 200

    reactor.run(core)
    reactor.close()

    assert [event for event in core.events if "refused" in event]


def test_outgoing_connection_is_reported_and_transfers_data(served: Any, new_line_core: Callable[..., Any]) -> None:
    reactor = served.new_reactor()
    core = new_line_core(reactor, lambda _: [])
    reactor.connect(Endpoint("127.0.0.1", served.port), "LINES")
    core.greeting = b"hello\n"
    core.deadline_ms = SystemClock().monotonic_ms() + 300
    received: list[bytes] = []
    core.respond = lambda line: received.append(line) or []  # type: ignore[func-returns-value]

    reactor.run(core)
    reactor.close()

    assert core.events[0] == "connected"
    assert received == [b"hello"]


def test_port_in_use_is_an_error(served: Any) -> None:
    reactor = Reactor(SystemClock())
    with pytest.raises(OSError, match="in use"):
        reactor.listen("OTHER", "127.0.0.1", served.port)
    reactor.close()


# --- unexpected exceptions


@pytest.mark.parametrize("method", ["received", "receive_buffer", "accepted"])
def test_unexpected_exception_closes_its_connection_and_the_others_are_served(
    serve: Callable[..., Any], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(echo) as served, served.connect() as other:
        other.sendall(b"one\n")
        assert read_all(other, 4) == b"one\n"
        real = getattr(served.core, method)

        def raise_once(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(served.core, method, real)
            raise RuntimeError("can't start new thread")

        broken = None if method == "accepted" else served.connect()
        with served.held():
            monkeypatch.setattr(served.core, method, raise_once)
            if broken is None:
                broken = served.connect_plain()
            broken.sendall(b"x\n")
        with broken, suppress(OSError):
            while broken.recv(100):
                pass
        other.sendall(b"two\n")

        assert read_all(other, 4) == b"two\n"
        assert served.network_metrics.unexpected_errors == 1


def test_completion_that_raises_is_dropped_and_the_next_ones_run(served: Any) -> None:
    done: list[int] = []
    served.reactor.post(lambda: 1 // 0)
    served.reactor.post(lambda: done.append(1))
    served.wait_until(lambda: bool(done))

    assert served.network_metrics.unexpected_errors == 1
