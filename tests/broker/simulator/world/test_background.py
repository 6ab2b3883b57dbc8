"""Simulated work off the loop completes when the schedule says so, fails on demand, and dies with its process."""

from collections.abc import Callable

from ottla.simulator.world.background import SimulatedBackground
from ottla.simulator.world.random_source import SeededRandom


def test_work_completes_in_order_on_complete_work() -> None:
    background = SimulatedBackground()
    outcomes: list[object] = []
    background.run(lambda: 1, outcomes.append)
    background.run(lambda: 1 // 0, outcomes.append)
    assert outcomes == []

    assert background.complete_work() == 2
    assert outcomes[0] == 1
    assert isinstance(outcomes[1], ZeroDivisionError)


def test_fail_next_fails_that_many_calls() -> None:
    background = SimulatedBackground()
    background.fail_next()
    performed: list[int] = []
    outcomes: list[object] = []
    background.run(lambda: performed.append(1), outcomes.append)
    background.run(lambda: performed.append(2), outcomes.append)
    background.complete_work()

    assert isinstance(outcomes[0], RuntimeError)
    assert (performed, outcomes[1:]) == ([2], [None])


def test_work_of_a_killed_process_never_completes() -> None:
    scheduled: list[Callable[[], None]] = []
    background = SimulatedBackground(schedule=scheduled.append)
    outcomes: list[object] = []
    background.run(lambda: 1, outcomes.append)
    background.kill()
    background.run(lambda: 2, outcomes.append)
    for complete in scheduled:
        complete()

    assert outcomes == [2]


def test_work_reads_data_of_the_loop_before_or_after_a_change() -> None:
    """A thread may run at any moment: work on shared state must be found by some seed."""
    background = SimulatedBackground(random=SeededRandom(3))
    outcomes: set[object] = set()
    for _ in range(20):
        shared = ["before"]
        background.run(lambda shared=shared: shared[0], outcomes.add)  # type: ignore[misc]
        shared[0] = "after"
        background.complete_work()

    assert outcomes == {"before", "after"}


def test_failures_follow_the_seed() -> None:
    background = SimulatedBackground(random=SeededRandom(3))
    background.fails_one_in = 4
    outcomes: list[object] = []
    for number in range(100):
        background.run(lambda number=number: number, outcomes.append)  # type: ignore[misc]
    background.complete_work()

    assert 10 < sum(isinstance(outcome, RuntimeError) for outcome in outcomes) < 40
