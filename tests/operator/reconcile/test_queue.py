"""Dirty keys: once each, never two workers on one, later and later after failures."""

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from ottla_operator.model.manifest import ObjectKey
from ottla_operator.reconcile.queue import DirtyKeys


def key(name: str, group: str = "") -> ObjectKey:
    return ObjectKey("Topic", group or name, name)


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer instead of passing."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 1_000.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(scenario())


class Workers:
    """Workers on a queue, and a diary of what they did; ``hold`` keeps a key in work until it is set."""

    def __init__(self, queue: DirtyKeys, count: int = 1) -> None:
        self.done: list[tuple[str, float]] = []
        self.begun: list[str] = []
        self.hold: dict[str, asyncio.Event] = {}
        self.failures: dict[str, int] = {}
        self._tasks = [asyncio.ensure_future(queue.work(self._reconcile)) for _ in range(count)]

    async def _reconcile(self, it: ObjectKey) -> bool:
        self.begun.append(it.name)
        if it.name in self.hold:
            await self.hold[it.name].wait()
        self.done.append((it.name, asyncio.get_running_loop().time()))
        if self.failures.get(it.name, 0):
            self.failures[it.name] -= 1
            return False
        return True

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.done]

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def test_key_that_is_marked_often_is_reconciled_once() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        for _ in range(3):
            queue.add(key("a"))
        assert len(queue) == 1
        workers = Workers(queue)
        await workers.settle()

        assert workers.names == ["a"]
        await workers.stop()

    run(scenario)


def test_key_marked_during_its_work_is_reconciled_again_afterwards() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue, count=2)
        workers.hold["a"] = asyncio.Event()
        queue.add(key("a"))
        await workers.settle()
        queue.add(key("a"))
        queue.add(key("a"))
        await workers.settle()
        assert workers.begun == ["a"]
        workers.hold["a"].set()
        await workers.settle()

        assert workers.names == ["a", "a"]
        await workers.stop()

    run(scenario)


@pytest.mark.parametrize(
    ("groups", "begun"), [(("x", "x"), ["a"]), (("x", "y"), ["a", "b"])], ids=["same-cluster", "two-clusters"]
)
def test_keys_of_one_cluster_take_turns(groups: tuple[str, str], begun: list[str]) -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue, count=2)
        workers.hold["a"] = asyncio.Event()
        queue.add(key("a", groups[0]))
        await workers.settle()
        queue.add(key("b", groups[1]))
        await workers.settle()

        assert workers.begun == begun
        await workers.stop()

    run(scenario)


def test_key_that_makes_progress_is_tried_again_as_soon_as_the_first_time() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 7
        queue.add(key("a"))
        await asyncio.sleep(20)
        before = len(workers.done)
        queue.progressed(key("a"))
        queue.add(key("a"))
        await asyncio.sleep(0.6)

        assert before == 6
        assert len(workers.done) == before + 2
        await workers.stop()

    run(scenario)


def test_failed_key_is_tried_later_and_later_up_to_a_minute() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 9
        queue.add(key("a"))
        await asyncio.sleep(1_000)

        times = [at for _, at in workers.done]
        waits = [after - before for before, after in pairwise(times)]
        assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
        await workers.stop()

    run(scenario)


def test_key_that_fails_for_days_is_still_tried_every_minute() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 1_200
        queue.add(key("a"))
        await asyncio.sleep(60 * 1_500)

        assert len(workers.done) == 1_201
        await workers.stop()

    run(scenario)


def test_success_forgets_the_failures() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 2
        queue.add(key("a"))
        await asyncio.sleep(100)
        workers.failures["a"] = 1
        queue.add(key("a"))
        await asyncio.sleep(100)

        *_, before, after = [at for _, at in workers.done]
        assert after - before == 0.5
        await workers.stop()

    run(scenario)


def test_mark_does_not_wait_for_a_later_try() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 5
        queue.add(key("a"))
        await asyncio.sleep(10)
        tries = len(workers.done)
        queue.add(key("a"))
        await workers.settle()

        assert len(workers.done) == tries + 1
        await workers.stop()

    run(scenario)


def test_age_counts_only_keys_that_could_be_taken() -> None:
    async def scenario() -> None:
        queue = DirtyKeys(lambda it: it.namespace)
        assert queue.oldest_age_s() == 0
        queue.add(key("a", "x"))
        await asyncio.sleep(5)
        assert queue.oldest_age_s() == 5
        workers = Workers(queue)
        workers.hold["a"] = asyncio.Event()
        await workers.settle()
        queue.add(key("b", "x"))
        await asyncio.sleep(7)
        assert queue.oldest_age_s() == 0
        await workers.stop()

    run(scenario)
