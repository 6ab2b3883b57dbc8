"""A controlled shutdown: leaders first, then the quorum; every step is bounded in time."""

import pytest

from ottla.node.shutdown import TIME_MAX_MS, WITHOUT_RESPONSE_MAX_MS, OrderlyShutdown
from ottla.purgatory import Delayed
from ottla.simulator.world.clock import SimulatedClock


class Stopping:
    """A shutdown whose steps end when the test says so."""

    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.clock.advance(1_000)
        self.moved: Delayed[None] = Delayed()
        self.left: Delayed[None] = Delayed()
        self.steps: list[str] = []
        self.responded_ms = 0
        self.shutdown = OrderlyShutdown(
            self.clock,
            move_leaders=lambda: self.step("move leaders", self.moved),
            leave_quorum=lambda: self.step("leave the quorum", self.left),
            responded_ms=lambda: self.responded_ms,
            on_done=lambda: self.steps.append("done"),
        )

    def step(self, name: str, end: Delayed[None]) -> Delayed[None]:
        self.steps.append(name)
        return end

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.shutdown.tick(self.clock.monotonic_ms())


@pytest.fixture
def stopping() -> Stopping:
    return Stopping()


def test_quorum_is_left_when_the_leaders_have_moved(stopping: Stopping) -> None:
    assert stopping.steps == ["move leaders"]
    stopping.moved.complete(None)
    assert stopping.steps == ["move leaders", "leave the quorum"]
    assert stopping.shutdown.next_deadline_ms() is not None
    stopping.left.complete(None)

    assert stopping.steps == ["move leaders", "leave the quorum", "done"]
    assert stopping.shutdown.next_deadline_ms() is None


def test_wait_for_a_silent_controller_is_bounded(stopping: Stopping) -> None:
    stopping.pass_time(1_000)
    stopping.responded_ms = stopping.clock.monotonic_ms()
    stopping.pass_time(WITHOUT_RESPONSE_MAX_MS - 1)
    assert stopping.steps == ["move leaders"]
    stopping.pass_time(1)

    assert stopping.steps == ["move leaders", "leave the quorum"]


def test_shutdown_ends_even_if_leaders_never_move(stopping: Stopping) -> None:
    for _ in range(TIME_MAX_MS // 1_000 - 1):
        stopping.pass_time(1_000)
        stopping.responded_ms = stopping.clock.monotonic_ms()
    assert stopping.steps == ["move leaders"]
    stopping.pass_time(1_000)
    stopping.moved.complete(None)
    stopping.left.complete(None)

    assert stopping.steps.count("done") == 1
