"""Idle work runs step by step, and ends with a step that raises."""

from collections.abc import Iterator

from ottla.metrics.network import NetworkMetrics
from ottla.runtime.defects import Defects
from ottla.runtime.idle_work import IdleWork
from ottla.simulator.world.clock import SimulatedClock


def counting(done: list[int], raises_at: int = -1) -> Iterator[None]:
    for number in range(3):
        if number == raises_at:
            raise ImportError("Too many open files")
        done.append(number)
        yield


def test_work_is_done_one_step_at_a_time_to_its_end() -> None:
    idle, done = IdleWork(Defects(SimulatedClock(), NetworkMetrics())), list[int]()
    idle.start(counting(done))
    idle.take_step()
    first = list(done)
    while idle.has_work:
        idle.take_step()

    assert (first, done) == ([0], [0, 1, 2])


def test_step_that_raises_ends_the_work_and_is_counted() -> None:
    metrics = NetworkMetrics()
    idle, done = IdleWork(Defects(SimulatedClock(), metrics)), list[int]()
    idle.start(counting(done, raises_at=1))
    while idle.has_work:
        idle.take_step()

    assert (done, metrics.unexpected_errors) == ([0], 1)
