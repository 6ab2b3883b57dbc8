"""A loop that serves no connection for too long is reported once, with what it does."""

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from line_protocol import echo, read_all
from ottla.metrics.loop import BOUNDS_S, LoopMetrics
from ottla.runtime.stall_watch import StallWatch
from ottla.simulator.world.clock import SimulatedClock

BOUND_MS = 400


class Loop:
    """A loop and its watch, without threads."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.metrics = LoopMetrics()
        self.busy_since_ns = 0
        self.watch = StallWatch(self, self.clock, self.metrics, BOUND_MS)
        self.watch._watched = threading.get_ident()
        self.watch._watched_native = threading.get_native_id()

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
    caplog.set_level(logging.WARNING, "ottla.runtime.stall_watch")
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
    caplog.set_level(logging.WARNING, "ottla.runtime.stall_watch")
    with serve(echo) as served:
        watch = StallWatch(served.reactor.loop, served.clock, served.network_metrics.loop, bound_ms=20)
        served.reactor.post(watch.start)
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
