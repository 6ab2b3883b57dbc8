"""Memory of work off the loop is held until the work has ended, and its time is reported."""

import pytest

from ottla.purgatory.memory_budget import MemoryBudget
from ottla.purgatory.off_loop import OffLoop, in_place
from ottla.purgatory.steps import Steps, run_to_end
from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.clock import SimulatedClock


def hold_and_work(off_loop: OffLoop, size_bytes: int) -> Steps[int]:
    memory = off_loop.hold(size_bytes)
    try:
        yield from memory.acquire()
        return (yield from memory.work(lambda: 42))
    finally:
        memory.release()


def test_bytes_are_released_with_the_result() -> None:
    background, budget = SimulatedBackground(), MemoryBudget(100)
    steps = hold_and_work(OffLoop(background, budget, SimulatedClock()), 70)
    wait = next(steps)
    assert budget.held_bytes == 70
    background.complete_work()
    assert wait is not None
    with pytest.raises(StopIteration) as end:
        steps.send(wait.value)

    assert (end.value.value, budget.held_bytes) == (42, 0)


def test_closed_steps_leave_the_bytes_to_the_thread() -> None:
    background, budget = SimulatedBackground(), MemoryBudget(100)
    steps = hold_and_work(OffLoop(background, budget, SimulatedClock()), 70)
    next(steps)
    steps.close()
    assert budget.held_bytes == 70
    background.complete_work()

    assert budget.held_bytes == 0


def test_steps_closed_while_they_wait_for_memory_hold_none() -> None:
    background, budget = SimulatedBackground(), MemoryBudget(100)
    budget.acquire(90)
    steps = hold_and_work(OffLoop(background, budget, SimulatedClock()), 70)
    next(steps)
    steps.close()

    assert (budget.held_bytes, budget.waiting_count, background.run_count) == (90, 0, 0)


def test_work_is_done_on_the_loop_where_no_thread_can_be_created() -> None:
    background = SimulatedBackground()
    background.fail_next()
    steps = hold_and_work(OffLoop(background, MemoryBudget(100), SimulatedClock()), 70)
    wait = next(steps)
    background.complete_work()
    assert wait is not None
    with pytest.raises(StopIteration) as end:
        steps.send(wait.value)

    assert end.value.value == 42


def test_time_of_each_work_is_reported() -> None:
    background, clock, reported = SimulatedBackground(), SimulatedClock(), list[int]()
    off_loop = OffLoop(background, MemoryBudget(100), clock, reported.append)
    memory = off_loop.hold(1)
    steps = memory.work(lambda: clock.advance(3))
    next(steps)
    background.complete_work()

    assert reported == [3_000_000]


def test_work_in_place_needs_no_thread() -> None:
    assert run_to_end(hold_and_work(in_place(SimulatedClock()), 1 << 40)) == 42
