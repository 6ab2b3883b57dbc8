"""The reactor over real sockets: bytes in, buffers and file slices out; slow and lost peers, timers, other threads."""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.ports import Chunk, Clock, ConnectionId, FileSlice
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.reactor import LINGER_MS, Reactor
from ottla.types import Endpoint

LINE = b"\n"


class LineCore:
    """Answers every line with what ``answer`` says; everything that happens to it is noted."""

    def __init__(self, reactor: Reactor, answer: Callable[[bytes], list[Chunk]]) -> None:
        self.reactor = reactor
        self.answer = answer
        self.events: list[str] = []
        self.accepts = True
        self.greeting = b""
        self.deadline_ms: int | None = None
        self.ticks_after_deadline = 0
        self._buffer = memoryview(bytearray(1024))
        self._partial: dict[ConnectionId, bytes] = {}

    def accepted(self, connection: ConnectionId, *, listener: str, peer: Endpoint, dialled: Endpoint) -> bool:
        self.events.append(f"accepted on {listener}")
        self._partial[connection] = b""
        return self.accepts

    def connected(self, connection: ConnectionId) -> None:
        self.events.append("connected")
        self._partial[connection] = b""
        if self.greeting:
            self.reactor.send(connection, [self.greeting])

    def receive_buffer(self, connection: ConnectionId) -> memoryview:
        return self._buffer

    def received(self, connection: ConnectionId, size_bytes: int) -> None:
        *lines, rest = (self._partial[connection] + bytes(self._buffer[:size_bytes])).split(LINE)
        self._partial[connection] = rest
        for line in lines:
            if line == b"bye":
                self.reactor.close_connection(connection)
            elif line == b"pause":
                self.reactor.pause_reading(connection)
                self.events.append("paused")
            elif line == b"go on":
                self.reactor.resume_reading(connection - 1)
            elif not self.reactor.send(connection, self.answer(line)):
                self.events.append("told to wait")

    def drained(self, connection: ConnectionId) -> None:
        self.events.append("drained")

    def closed(self, connection: ConnectionId, reason: str, *, was_refused: bool = False) -> None:
        self.events.append(f"closed: {reason}{' (refused)' if was_refused else ''}")

    def tick(self) -> None:
        if self.deadline_ms is not None and self.reactor._clock.monotonic_ms() >= self.deadline_ms:
            self.ticks_after_deadline += 1
            self.deadline_ms = None
            self.reactor.stop()

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms


class Served:
    """A reactor running in a thread of its own."""

    def __init__(self, answer: Callable[[bytes], list[Chunk]], clock: Clock | None = None) -> None:
        self.reactor = Reactor(clock or SystemClock())
        self.core = LineCore(self.reactor, answer)
        self.port = self.reactor.listen("LINES", "127.0.0.1", 0)
        self.thread = threading.Thread(target=self.reactor.run, args=(self.core,))

    def __enter__(self) -> "Served":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.reactor.stop()
        self.thread.join(30)
        assert not self.thread.is_alive(), "the loop did not stop"
        self.reactor.close()

    def wait_for(self, event: str) -> None:
        self.wait_until(lambda: event in self.core.events)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, f"it does not come true; so far: {self.core.events}"
            time.sleep(0.001)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)


def echo(line: bytes) -> list[Chunk]:
    return [line + LINE]


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(echo) as running:
        yield running


def read_all(sock: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes and (piece := sock.recv(65536)):
        data += piece
    return bytes(data)


def test_requests_are_answered_in_order_however_they_are_cut(served: Served) -> None:
    with served.connect() as sock:
        sock.sendall(b"on")
        sock.sendall(b"e\ntwo\nth")
        sock.sendall(b"ree\n")

        assert read_all(sock, 14) == b"one\ntwo\nthree\n"


def test_a_peer_that_hangs_up_is_reported_once(served: Served) -> None:
    with served.connect() as sock:
        sock.sendall(b"x\n")
        read_all(sock, 2)
    with served.connect() as sock:
        # Its answer comes after the loop has seen the first one's end.
        sock.sendall(b"y\n")
        read_all(sock, 2)

        assert served.core.events.count("closed: closed by the peer") == 1


@pytest.mark.parametrize("unread", [b"", b"more\n"], ids=["nothing-unread", "bytes-unread"])
@pytest.mark.parametrize("comes_late", [False, True], ids=["at-once", "after-the-loop-saw-the-bytes"])
def test_a_peer_that_hangs_up_while_it_is_not_read_is_reported_once(
    served: Served, unread: bytes, comes_late: bool
) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system tells of it only when the connection is read again")
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


def test_a_peer_that_is_read_again_is_heard_and_its_end_reported_behind_that(served: Served) -> None:
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


def test_what_is_queued_is_sent_before_the_core_closes(served: Served) -> None:
    with served.connect() as sock:
        sock.sendall(b"last\nbye\n")

        assert read_all(sock, 100) == b"last\n"


def test_what_is_queued_for_a_peer_that_does_not_read_is_given_up_after_a_while() -> None:
    class SkippingClock(SystemClock):
        skipped_ms = 0

        def monotonic_ms(self) -> int:
            return super().monotonic_ms() + self.skipped_ms

    clock = SkippingClock()
    with Served(lambda line: [line * 16_000_000], clock) as served, served.connect() as idle, served.connect() as other:
        other.sendall(b"pause\n")
        served.wait_for("paused")
        idle.sendall(b"x\nbye\n")
        served.wait_until(lambda: len(served.reactor._lingering) == 1)
        assert len(served.reactor._links) == 2
        clock.skipped_ms = LINGER_MS
        served.reactor.post(lambda: None)

        served.wait_until(lambda: len(served.reactor._links) == 1)


def test_a_refused_connection_is_closed_at_once(served: Served) -> None:
    served.core.accepts = False
    with served.connect() as sock:
        assert sock.recv(1) == b""


def test_buffers_and_file_slices_arrive_as_one_stream(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "file").write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(tmp_path / "file"), read_only=True)

    def answer(line: bytes) -> list[Chunk]:
        return [b"<", FileSlice(file, 256, len(content) - 512), memoryview(b"|"), FileSlice(file, 0, 3), b">"]

    expected = b"<" + content[256:-256] + b"|\x00\x01\x02>"
    with Served(answer) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(expected))
    disk.close()

    assert received == expected


def test_bytes_that_are_only_on_the_disk_arrive_too(tmp_path: Path) -> None:
    content = os.urandom(6_000_000)
    path = tmp_path / "file"
    path.write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(path), read_only=True)
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    with Served(lambda _: [b"<", FileSlice(file, 0, len(content)), b">"]) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(content) + 2)
    disk.close()

    assert received == b"<" + content + b">"


def test_a_peer_that_does_not_read_is_waited_for_and_the_others_are_not() -> None:
    large = b"x" * 8_000_000

    with (
        Served(lambda line: [large if line == b"large" else line + LINE]) as served,
        served.connect() as slow,
        served.connect() as other,
    ):
        slow.sendall(b"large\n")
        other.sendall(b"quick\n")
        quick = read_all(other, 6)
        told = "told to wait" in served.core.events
        received = read_all(slow, len(large))
        slow.sendall(b"again\n")
        after = read_all(slow, 6)

    assert quick == b"quick\n"
    assert told
    assert received == large
    assert after == b"again\n"
    assert served.core.events.count("drained") == 1


def test_an_action_posted_from_another_thread_runs_on_the_loop(served: Served) -> None:
    ran = threading.Event()
    thread: list[int] = []
    served.reactor.post(lambda: (thread.append(threading.get_ident()), ran.set()))  # type: ignore[func-returns-value, arg-type]

    assert ran.wait(30)
    assert thread == [served.thread.ident]


def test_the_core_is_called_when_its_deadline_has_passed() -> None:
    reactor = Reactor(SystemClock())
    core = LineCore(reactor, echo)
    core.deadline_ms = SystemClock().monotonic_ms() + 30

    reactor.run(core)
    reactor.close()

    assert core.ticks_after_deadline == 1


def test_an_outgoing_connection_that_nobody_answers_is_reported_closed() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    reactor = Reactor(SystemClock())
    core = LineCore(reactor, echo)
    reactor.connect(Endpoint("127.0.0.1", port), "LINES")
    core.deadline_ms = SystemClock().monotonic_ms() + 200

    reactor.run(core)
    reactor.close()

    assert [event for event in core.events if "refused" in event]


def test_an_outgoing_connection_is_reported_and_speaks(served: Served) -> None:
    reactor = Reactor(SystemClock())
    core = LineCore(reactor, lambda _: [])
    reactor.connect(Endpoint("127.0.0.1", served.port), "LINES")
    core.greeting = b"hello\n"
    core.deadline_ms = SystemClock().monotonic_ms() + 300
    received: list[bytes] = []
    core.answer = lambda line: received.append(line) or []  # type: ignore[func-returns-value]

    reactor.run(core)
    reactor.close()

    assert core.events[0] == "connected"
    assert received == [b"hello"]


def test_a_port_in_use_is_an_error(served: Served) -> None:
    reactor = Reactor(SystemClock())
    with pytest.raises(OSError, match="in use"):
        reactor.listen("OTHER", "127.0.0.1", served.port)
    reactor.close()
