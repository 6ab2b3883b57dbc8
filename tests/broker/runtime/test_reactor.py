"""The reactor over real sockets: bytes in, buffers and file slices out; slow and lost peers, timers, other threads.

What `serve` gives is tried in the clear and under TLS.
"""

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.ports import Chunk, FileSlice
from ottla.runtime.clock import SystemClock
from ottla.runtime.disk import OsDisk
from ottla.runtime.link import SocketOptions
from ottla.runtime.reactor import LINGER_MS, Reactor
from ottla.runtime.sender import Sender
from ottla.types import Endpoint

LINE = b"\n"


def echo(line: bytes) -> list[Chunk]:
    return [line + LINE]


@pytest.fixture
def served(serve: Callable[..., Any]) -> Iterator[Any]:
    with serve(echo) as running:
        yield running


def read_all(sock: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes and (piece := sock.recv(65536)):
        data += piece
    return bytes(data)


def test_requests_are_answered_in_order_however_they_are_cut(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"on")
        sock.sendall(b"e\ntwo\nth")
        sock.sendall(b"ree\n")

        assert read_all(sock, 14) == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("is_told", [True, False])
def test_the_core_is_told_the_address_that_was_dialled_where_it_wants_to_know(
    serve: Callable[..., Any], is_told: bool
) -> None:
    with serve(echo, None, SocketOptions(tells_dialled=is_told)) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        read_all(sock, 2)

        assert served.core.dialled == (Endpoint("127.0.0.1", served.port) if is_told else None)


def test_a_peer_that_hangs_up_is_reported_once(served: Any) -> None:
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
    served: Any, unread: bytes, comes_late: bool
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


def test_a_peer_that_is_read_again_is_heard_and_its_end_reported_behind_that(served: Any) -> None:
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


def test_what_was_sent_before_a_hang_up_is_read_where_the_core_serves_it_yet(serve: Callable[..., Any]) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system tells of it only when the connection is read again")
    heard: list[bytes] = []
    with serve(lambda line: heard.append(line) or echo(line)) as served:
        served.core.rest_is_served = True
        with served.connect() as paused, served.connect() as other:
            # What came with the handshake is read, so that the hang-up is an orderly one.
            paused.sendall(b"z\n")
            read_all(paused, 2)
            paused.sendall(b"pause\n")
            served.wait_for("paused")
            paused.sendall(b"first\nsecond\n")
            paused.close()
            served.wait_for("hung up")
            other.sendall(b"x\n")
            read_all(other, 2)
            assert served.core.events.count("hung up") == 1, "the loop does not ask again and again"
            assert heard == [b"z", b"x"]

            other.sendall(b"go on\n")
            served.wait_for("closed: closed by the peer")

        assert heard == [b"z", b"x", b"first", b"second"]


def test_one_that_hung_up_and_is_paused_anew_is_asked_about_again(serve: Callable[..., Any]) -> None:
    if not hasattr(select, "epoll"):
        pytest.skip("the system tells of it only when the connection is read again")
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


def test_what_is_queued_is_sent_before_the_core_closes(served: Any) -> None:
    with served.connect() as sock:
        sock.sendall(b"last\nbye\n")

        assert read_all(sock, 100) == b"last\n"


class SkippingClock(SystemClock):
    """The system's, with some time that nobody waited for."""

    skipped_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.skipped_ms


def test_who_takes_none_of_its_answers_is_closed_as_if_it_were_idle(serve: Callable[..., Any]) -> None:
    clock = SkippingClock()
    with (
        serve(lambda line: [line * 16_000_000], clock, SocketOptions(idle_ms_max=600_000)) as served,
        served.connect() as silent,
        served.connect() as other,
    ):
        silent.sendall(b"x\n")
        served.wait_for("told to wait")
        other.sendall(b"pause\n")
        served.wait_for("paused")
        unread_bytes = served.network_metrics.unread_bytes

        def is_closed_after_a_while() -> bool:
            # The system may have taken some more of it just now.
            clock.skipped_ms += 600_000
            served.reactor.post(lambda: None)
            return any("closed: its peer has taken none of" in event for event in served.core.events)

        served.wait_until(is_closed_after_a_while)

        assert unread_bytes > 1_000_000
        assert served.network_metrics.unread_bytes == 0
        assert served.network_metrics.closed_unread == {"idle": 1}
        assert len(served.reactor._links) == 1


def test_more_requests_are_no_sign_that_answers_are_taken(serve: Callable[..., Any]) -> None:
    clock, asked = SkippingClock(), list[bytes]()

    def answer(line: bytes) -> list[Chunk]:
        asked.append(line)
        return [bytes(100_000) if line == b"much" else b"."]

    with serve(answer, clock, SocketOptions(idle_ms_max=600_000)) as served, served.connect() as silent:

        def is_closed() -> bool:
            return any("closed: its peer has taken none of" in event for event in served.core.events)

        def ask(line: bytes) -> None:
            count = len(asked)
            with suppress(OSError):
                silent.sendall(line + LINE)
            served.wait_until(lambda: is_closed() or len(asked) > count)

        while all(link.outbox_bytes < 300_000 for link in list(served.reactor._links.values())):
            ask(b"much")
        for _ in range(10):
            clock.skipped_ms += 300_000
            ask(b"little")

        assert is_closed()


def test_peers_that_take_no_answers_share_a_bounded_memory(serve: Callable[..., Any]) -> None:
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
            served.wait_until(lambda number=number: served.core.events.count("told to wait") == number)
        served.wait_until(lambda: served.network_metrics.closed_unread["memory"] == 1)
        good.sendall(b"small\n")

        assert read_all(good, 5) == b"small"
        assert 40_000_000 < served.network_metrics.unread_bytes <= 76_000_000


@pytest.mark.skipif(not hasattr(socket, "TCP_NOTSENT_LOWAT"), reason="the system takes what it likes")
def test_the_system_takes_little_for_a_peer_that_does_not_read(serve: Callable[..., Any]) -> None:
    """Its own memory is in no bound of ours, and megabytes for each of a crowd are more than the rest of the node."""
    large = b"x" * 8_000_000

    with serve(lambda line: [line * 8_000_000]) as served, served.connect() as silent:
        silent.sendall(b"x\n")
        served.wait_for("told to wait")
        looks = [0, 1]
        while looks[-1] != looks[-2]:
            time.sleep(0.2)
            looks.append(served.network_metrics.unread_bytes)

        assert looks[-1] > 6_800_000
        assert read_all(silent, len(large)) == large


@pytest.mark.parametrize("slice_bytes", [8 << 20, 64 << 10], ids=["one-slice", "slices-of-many-partitions"])
def test_peers_that_are_sent_files_share_a_turn_of_the_loop(
    serve: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slice_bytes: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(8 << 20))
    disk = OsDisk(lambda action: action())
    file = disk.open(str(path), read_only=True)
    asked: list[int] = []
    flush = Sender.flush

    def note(self: Sender, link: Any) -> None:
        before = link.outbox_bytes
        flush(self, link)
        asked.append(before - link.outbox_bytes)

    monkeypatch.setattr(Sender, "flush", note)
    with serve(lambda _: [FileSlice(file, at, slice_bytes) for at in range(0, 8 << 20, slice_bytes)]) as served:
        crowd = [served.connect() for _ in range(16)]
        served.wait_until(lambda: len([each for each in served.core.events if "accepted" in each]) == 16)
        served.wait_until(lambda: served.metrics.open_handshakes == 0)
        with served.held():
            for sock in crowd:
                sock.sendall(b"go\n")
        for sock in crowd:
            sock.settimeout(30)
            assert len(read_all(sock, 8 << 20)) == 8 << 20
            sock.close()
    disk.close()

    assert max(asked[:16]) <= (1 << 20) // 16


def test_who_sends_on_and_on_is_read_in_shares_and_others_have_their_turn_between(serve: Callable[..., Any]) -> None:
    served_to: list[bytes] = []
    served_by_turn: list[int] = []

    def answer(line: bytes) -> list[Chunk]:
        served_to.append(line)
        return [line + LINE]

    with serve(answer) as served, served.connect() as busy:
        busy.sendall(b"hello\n")
        read_all(busy, 6)
        # The core reads a kibibyte at a time; a link reads twice in a turn, and again at its end if that is early.
        lines = [b"%0127d" % number for number in range(100)]
        with served.held():
            served_to.clear()
            served.core.tick = lambda: served_by_turn.append(len(served_to))
            busy.sendall(b"".join(line + LINE for line in lines))
        assert len(read_all(busy, 128 * 100)) == 128 * 100
        served.wait_until(lambda: bool(served_by_turn) and served_by_turn[-1] == 100)

    assert served_to == lines
    assert max(after - before for before, after in zip([0, *served_by_turn], served_by_turn, strict=False)) <= 32


def test_who_asks_for_more_than_it_takes_comes_behind_those_who_take_it(serve: Callable[..., Any]) -> None:
    served_to: list[bytes] = []

    def answer(line: bytes) -> list[Chunk]:
        served_to.append(line)
        return [bytes(100_000) if line.startswith(b"large") else line + LINE]

    with serve(answer) as served, served.connect() as greedy, served.connect() as modest:
        # Its own window takes some of them, and the rest waits here.
        for number in range(10):
            greedy.sendall(b"large\n")
            served.wait_until(lambda number=number: len(served_to) > number)
        with served.held():
            greedy.sendall(b"large again\n")
            modest.sendall(b"modest\n")
        read_all(modest, 7)
        served.wait_until(lambda: b"large again" in served_to)

    assert served_to[10:] == [b"modest", b"large again"]


def test_what_is_queued_for_a_peer_that_does_not_read_is_given_up_after_a_while(
    serve: Callable[..., Any],
) -> None:
    clock = SkippingClock()
    with serve(lambda line: [line * 16_000_000], clock) as served, served.connect() as idle, served.connect() as other:
        other.sendall(b"pause\n")
        served.wait_for("paused")
        idle.sendall(b"x\nbye\n")
        served.wait_until(lambda: len(served.reactor._lingering) == 1)
        assert len(served.reactor._links) == 2
        clock.skipped_ms = LINGER_MS
        served.reactor.post(lambda: None)

        served.wait_until(lambda: len(served.reactor._links) == 1)


def test_a_refused_connection_is_closed_at_once(served: Any) -> None:
    served.core.accepts = False
    with served.connect_plain() as sock:
        assert sock.recv(1) == b""


def test_buffers_and_file_slices_arrive_as_one_stream(serve: Callable[..., Any], tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    (tmp_path / "file").write_bytes(content)
    disk = OsDisk(lambda action: action())
    file = disk.open(str(tmp_path / "file"), read_only=True)

    def answer(line: bytes) -> list[Chunk]:
        return [b"<", FileSlice(file, 256, len(content) - 512), memoryview(b"|"), FileSlice(file, 0, 3), b">"]

    expected = b"<" + content[256:-256] + b"|\x00\x01\x02>"
    with serve(answer) as served, served.connect() as sock:
        sock.sendall(b"go\n")
        received = read_all(sock, len(expected))
    disk.close()

    assert received == expected


def test_bytes_that_are_only_on_the_disk_arrive_too(serve: Callable[..., Any], tmp_path: Path) -> None:
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


def test_a_peer_that_does_not_read_is_waited_for_and_the_others_are_not(serve: Callable[..., Any]) -> None:
    large = b"x" * 8_000_000

    with (
        serve(lambda line: [large if line == b"large" else line + LINE]) as served,
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


def test_an_action_posted_from_another_thread_runs_on_the_loop(served: Any) -> None:
    ran = threading.Event()
    thread: list[int] = []
    served.reactor.post(lambda: (thread.append(threading.get_ident()), ran.set()))  # type: ignore[func-returns-value, arg-type]

    assert ran.wait(30)
    assert thread == [served.thread.ident]


def test_the_core_is_called_when_its_deadline_has_passed(new_line_core: Callable[..., Any]) -> None:
    reactor = Reactor(SystemClock())
    core = new_line_core(reactor, echo)
    core.deadline_ms = SystemClock().monotonic_ms() + 30

    reactor.run(core)
    reactor.close()

    assert core.ticks_after_deadline == 1


def test_an_outgoing_connection_that_nobody_answers_is_reported_closed(new_line_core: Callable[..., Any]) -> None:
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


def test_an_outgoing_connection_is_reported_and_speaks(served: Any, new_line_core: Callable[..., Any]) -> None:
    reactor = served.new_reactor()
    core = new_line_core(reactor, lambda _: [])
    reactor.connect(Endpoint("127.0.0.1", served.port), "LINES")
    core.greeting = b"hello\n"
    core.deadline_ms = SystemClock().monotonic_ms() + 300
    received: list[bytes] = []
    core.answer = lambda line: received.append(line) or []  # type: ignore[func-returns-value]

    reactor.run(core)
    reactor.close()

    assert core.events[0] == "connected"
    assert received == [b"hello"]


def test_a_port_in_use_is_an_error(served: Any) -> None:
    reactor = Reactor(SystemClock())
    with pytest.raises(OSError, match="in use"):
        reactor.listen("OTHER", "127.0.0.1", served.port)
    reactor.close()


# --- what no code expected


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


def test_aborted_connection_frees_what_waits_for_its_peer(serve: Callable[..., Any]) -> None:
    with serve(lambda line: [bytes(8 * 1024 * 1024)]) as served, served.connect() as sock:
        sock.sendall(b"x\n")
        sock.recv(1)
        connection = next(iter(served.reactor._links))
        served.wait_until(lambda: served.reactor.unsent_bytes(connection) > 0)
        served.reactor.post(lambda: served.reactor.abort_connection(connection))

        served.wait_for("closed: its memory is needed")
        assert served.reactor.unsent_bytes(connection) == 0
