"""Work in slices: the first at once, the others between events, and none after it was abandoned."""

from collections.abc import Callable

import pytest

from ottla.network.large_requests import LargeRequests
from ottla.network.step_runner import StepRunner
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, run_to_end
from ottla.simulator.world.clock import SimulatedClock


class TickingClock(SimulatedClock):
    """A clock that each step advances by its own duration."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


def counting(clock: TickingClock, steps: int, *, step_ns: int = 30_000, done: list[int] | None = None) -> Steps[str]:
    for number in range(steps):
        clock.now_ns += step_ns
        if done is not None:
            done.append(number)
        yield None
    return "done"


def test_work_that_fits_a_slice_is_done_at_once(clock: TickingClock) -> None:
    runner = StepRunner(clock)

    assert runner.start(counting(clock, 3)).value == "done"
    assert not runner


def test_longer_work_continues_a_slice_at_a_time(clock: TickingClock) -> None:
    runner, done = StepRunner(clock), list[int]()
    result = runner.start(counting(clock, 10, done=done))
    assert not result.is_complete

    slices = [len(done)]
    while runner.run_slices():
        slices.append(len(done))
    assert slices == [4, 8, 10]
    assert result.value == "done"


def test_slices_of_several_generators_alternate_within_the_time_of_a_loop_iteration(clock: TickingClock) -> None:
    runner = StepRunner(clock)
    done: dict[str, list[int]] = {"a": [], "b": []}
    for each in done.values():
        runner.start(counting(clock, 12, done=each))

    after = []
    while runner.run_slices():
        after.append((len(done["a"]), len(done["b"])))
    assert after == [(8, 4), (8, 8), (12, 8), (12, 12), (12, 12)]


def test_awaited_value_comes_back_into_the_generator(clock: TickingClock) -> None:
    runner = StepRunner(clock)
    event: Delayed[int] = Delayed()

    def steps() -> Steps[int]:
        return (yield event) + (yield Delayed.of(2))

    result = runner.start(steps())
    assert not runner.run_slices(), "it waits"
    assert len(runner) == 1
    event.complete(40)
    assert runner.run_slices()
    assert result.value == 42
    assert len(runner) == 0


@pytest.mark.parametrize("waits", [False, True], ids=["ready", "waiting"])
def test_abandoned_work_is_closed_and_never_continues(clock: TickingClock, waits: bool) -> None:
    runner = StepRunner(clock)
    event: Delayed[None] = Delayed()
    ended: list[str] = []

    def steps() -> Steps[None]:
        try:
            if waits:
                yield event
            while True:
                clock.now_ns += 200_000
                yield None
        finally:
            ended.append("closed")

    result = runner.start(steps())
    result.abandon()
    if waits:
        assert len(runner) == 0
    event.complete(None)

    assert ended == ["closed"]
    while runner.run_slices():
        pass
    assert ended == ["closed"]
    assert len(runner) == 0


def test_work_that_abandons_itself_ends_at_its_next_slice_point(clock: TickingClock) -> None:
    runner = StepRunner(clock)
    ends: list[Callable[[], None]] = []
    steps_done: list[int] = []

    def steps() -> Steps[None]:
        for number in range(100):
            clock.now_ns += 200_000
            steps_done.append(number)
            for end in ends:
                end()
            yield None

    result = runner.start(steps())
    ends.append(result.abandon)
    while runner.run_slices():
        pass

    assert steps_done == [0, 1]


def test_time_of_later_slices_is_reported(clock: TickingClock) -> None:
    runner, spent = StepRunner(clock), list[int]()
    runner.start(counting(clock, 10), on_slice=spent.append)
    while runner.run_slices():
        pass

    assert spent == [120_000, 60_000]


def test_steps_of_a_slice_may_be_bounded_where_no_time_passes(clock: TickingClock) -> None:
    runner, done = StepRunner(clock), list[int]()
    runner.steps_max = lambda: 2
    runner.start(counting(clock, 5, step_ns=0, done=done))
    assert len(done) == 2
    runner.run_slices()

    assert len(done) == 4


def test_large_requests_wait_for_the_slot_in_order(clock: TickingClock) -> None:
    large, runner = LargeRequests(), StepRunner(clock)
    begun: list[int] = []

    def steps(number: int) -> Steps[None]:
        begun.append(number)
        for _ in range(5):
            clock.now_ns += 200_000
            yield None

    results = [runner.start(large.in_slot(steps(number))) for number in range(4)]
    assert begun == [0]
    assert len(large) == 3
    results[1].abandon()
    assert len(large) == 2
    results[0].abandon()
    while runner.run_slices():
        pass

    assert begun == [0, 2, 3]
    assert len(large) == 0
    assert run_to_end(large.in_slot(steps(99))) is None, "the slot was released"


def test_large_request_that_waits_for_an_event_releases_the_slot(clock: TickingClock) -> None:
    large, runner = LargeRequests(), StepRunner(clock)
    event: Delayed[str] = Delayed()
    ended: list[str] = []

    def steps(name: str, wait: Delayed[str] | None) -> Steps[None]:
        ended.append(f"{name} {(yield wait) if wait is not None else 'at once'}")
        yield None

    first = runner.start(large.in_slot(steps("first", event)))
    runner.start(large.in_slot(steps("second", None)))
    abandoned = runner.start(large.in_slot(steps("third", Delayed())))
    while runner.run_slices():
        pass
    abandoned.abandon()
    event.complete("later")
    while runner.run_slices():
        pass

    assert ended == ["second at once", "first later"]
    assert first.is_complete
    assert run_to_end(large.in_slot(steps("fourth", None))) is None, "the slot is free"
