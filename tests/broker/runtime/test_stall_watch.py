"""A loop that serves no connection for too long is reported once, and its sockets are shut down meanwhile."""

import logging
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from line_protocol import echo, read_all
from ottla.metrics.loop import BOUNDS_S, LoopMetrics
from ottla.runtime.disk_wait import DiskWait
from ottla.runtime.stall_disconnect import StallDisconnect
from ottla.runtime.stall_report import StallReport
from ottla.runtime.stall_watch import StallResponse, StallWatch
from ottla.simulator.world.clock import SimulatedClock

BOUND_MS = 400


class Loop:
    """A loop and its watch, without threads."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.metrics = LoopMetrics()
        self.busy_since_ns = 0
        self.watch = self.watched_by(StallReport(self.metrics))

    def watched_by(self, response: StallResponse) -> StallWatch:
        return StallWatch(self, self.clock, BOUND_MS, response, "watch")

    def begin(self) -> None:
        self.busy_since_ns = self.clock.monotonic_ns()

    def end(self) -> None:
        self.busy_since_ns = 0

    def wait(self, times: int) -> None:
        """Let the watch check so many times, each after a quarter of the bound."""
        for _ in range(times):
            self.clock.advance(BOUND_MS // 4)
            self.watch.check()


@pytest.fixture
def loop(caplog: pytest.LogCaptureFixture) -> Loop:
    caplog.set_level(logging.WARNING, "ottla.runtime")
    return Loop()


def test_stall_is_reported_once_with_the_functions_under_way(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.clock.advance(1)
    loop.begin()
    loop.wait(3)
    assert caplog.messages == []

    loop.wait(20)

    assert loop.metrics.stalls == 1
    [message] = caplog.messages
    assert message.startswith(f"the event loop has been busy for {BOUND_MS} ms (ottla.loop.stall.ms)")
    assert "test_stall_is_reported_once_with_the_functions_under_way (" in message
    assert len(message) < 3_000


@pytest.mark.parametrize(("state", "waited_s"), [("D", 2.5), ("R", 0.0), ("", 0.0)])
def test_only_an_iteration_that_waits_for_a_disk_counts_as_such(loop: Loop, state: str, waited_s: float) -> None:
    disk_wait = DiskWait(loop, loop.clock, lambda native_thread: state)
    loop.clock.advance(1_000)
    assert disk_wait.elapsed_s() == 0, "it waits for events"

    loop.begin()
    loop.clock.advance(2_500)

    assert disk_wait.elapsed_s() == waited_s


def test_end_of_a_stall_is_reported_with_its_time(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.clock.advance(1)
    loop.begin()
    loop.wait(8)
    loop.end()
    loop.wait(1)

    assert caplog.messages[1:] == [f"the event loop runs again; it was stalled for up to {9 * BOUND_MS // 4} ms"]
    loop.begin()
    loop.wait(4)
    assert loop.metrics.stalls == 2


@pytest.mark.parametrize("iterations", [1, 50])
def test_short_iterations_are_no_stall(loop: Loop, caplog: pytest.LogCaptureFixture, iterations: int) -> None:
    for _ in range(iterations):
        loop.clock.advance(1)
        loop.begin()
        loop.wait(3)
    loop.end()
    loop.wait(100)

    assert (caplog.messages, loop.metrics.stalls) == ([], 0)


def test_pause_of_the_whole_process_is_no_stall(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """SIGSTOP, or a virtual machine that is moved: the watch did not run either."""
    loop.clock.advance(1)
    loop.begin()
    loop.clock.advance(60_000)
    loop.watch.check()
    loop.end()
    loop.wait(10)

    assert (caplog.messages, loop.metrics.stalls) == ([], 0)


def test_watch_reports_the_loop_of_a_reactor(serve: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.runtime")
    with serve(echo) as served:
        loop = served.reactor.loop
        watches: list[StallWatch] = []
        served.reactor.post(
            lambda: watches.append(
                StallWatch(loop, served.clock, 20, StallReport(served.network_metrics.loop), "watch")
            )
        )
        served.wait_until(lambda: bool(watches), "the watch is created on the loop's thread")
        [watch] = watches
        watch.start()
        stall = threading.Event()
        served.reactor.post(stall.wait)
        served.wait_until(lambda: served.network_metrics.loop.stalls == 1, "the stall is counted")
        stall.set()
        with served.connect() as sock:
            sock.sendall(b"x\n")
            assert read_all(sock, 2) == b"x\n"
        served.wait_until(lambda: len(caplog.messages) > 1, "its end is reported")
        watch.close()

    assert "wait (" in caplog.messages[0]
    assert "run (ottla/runtime/event_loop.py:" in caplog.messages[0]


def test_iterations_are_counted_by_how_long_they_took() -> None:
    metrics = LoopMetrics()
    for busy_ns in (0, 1_000_000, 1_000_001, 3_000_000_000, 11_000_000_000):
        metrics.add(busy_ns)

    counts = dict(zip((*BOUNDS_S, None), metrics.iterations, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {0.001: 2, 0.0025: 1, 5.0: 1, None: 1}
    assert metrics.busy_ns == 14_002_000_001


# Disconnecting


@pytest.mark.parametrize("has_others", [True, False])
def test_stalled_node_disconnects_if_others_can_take_over(
    loop: Loop, caplog: pytest.LogCaptureFixture, has_others: bool
) -> None:
    disconnected: list[int] = []

    def disconnect() -> int:
        disconnected.append(loop.clock.monotonic_ms())
        return 7

    loop.watch = loop.watched_by(StallDisconnect(disconnect, lambda: has_others, loop.metrics))
    loop.clock.advance(1)
    loop.begin()
    loop.wait(20)
    loop.end()
    loop.wait(1)

    assert disconnected == ([1 + BOUND_MS] if has_others else [])
    assert loop.metrics.disconnects == len(disconnected)
    assert len(caplog.messages) == (2 if has_others else 0)
    if has_others:
        assert "shut down the listeners and 7 connections" in caplog.messages[0]
        assert caplog.messages[1] == f"listening again after a stall of up to {21 * BOUND_MS // 4} ms"


def accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sockets_of_a_stalled_loop_are_shut_down_until_it_runs_again(serve: Callable[..., Any]) -> None:
    with serve(echo) as served, served.connect() as client, served.connect() as unread:
        client.sendall(b"before\n")
        assert read_all(client, 7) == b"before\n"
        served.wait_until(lambda: served.core.events.count("accepted on LINES") == 2, "both are accepted")
        with served.held():
            unread.sendall(b"in the buffer\n")
            assert served.reactor.disconnect() == 2
            assert client.recv(1) == b""
            assert not accepts(served.port)
        served.wait_until(lambda: sum("closed" in event for event in served.core.events) == 2, "both are closed")
        served.wait_until(lambda: accepts(served.port), "the node listens again")

        with served.connect() as sock:
            sock.sendall(b"after\n")
            assert read_all(sock, 6) == b"after\n"


def test_listener_that_pauses_in_a_stall_listens_again(serve: Callable[..., Any]) -> None:
    with serve(echo) as served:
        with served.held():
            served.reactor.post(lambda: served.reactor.pause_accepting("LINES", 1))
            served.reactor.disconnect()
        served.wait_until(lambda: accepts(served.port), "the node listens again")
        with served.connect() as sock:
            sock.sendall(b"x\n")
            assert read_all(sock, 2) == b"x\n"
