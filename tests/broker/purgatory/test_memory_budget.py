"""Work waits in order for the bytes that it needs, and no work waits for bytes that cannot become free."""

from ottla.purgatory.memory_budget import MemoryBudget


def test_work_waits_in_order_until_bytes_are_released() -> None:
    budget = MemoryBudget(100)
    first, second, third = budget.acquire(60), budget.acquire(60), budget.acquire(10)

    assert [each.is_complete for each in (first, second, third)] == [True, False, False]
    budget.release(60)
    assert (second.is_complete, third.is_complete, budget.held_bytes) == (True, True, 70)
    assert budget.waits == 2


def test_work_above_the_limit_runs_alone() -> None:
    budget = MemoryBudget(100)
    assert budget.acquire(1_000).is_complete
    later = budget.acquire(1)
    assert not later.is_complete
    budget.release(1_000)

    assert later.is_complete


def test_abandoned_work_unblocks_the_next() -> None:
    budget = MemoryBudget(100)
    budget.acquire(90)
    large, small = budget.acquire(50), budget.acquire(10)
    large.abandon()

    assert small.is_complete
    assert (budget.held_bytes, budget.waiting_count) == (100, 0)
