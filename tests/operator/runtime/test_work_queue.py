"""Dirty keys: once each, never two workers on one, and a growing backoff after failures."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from virtual_time import run

from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.work_queue import TOGETHER_MAX, WorkQueue


def key(name: str, group: str = "") -> ObjectKey:
    return ObjectKey("Cluster", group or name, name)


class Workers:
    """Workers on a queue, and a log of what they did; ``hold`` keeps a key in work until it is set."""

    def __init__(self, queue: WorkQueue, count: int = 1) -> None:
        self.done: list[tuple[str, float]] = []
        self.begun: list[str] = []
        self.batches: list[list[str]] = []
        self.hold: dict[str, asyncio.Event] = {}
        self.failures: dict[str, int] = {}
        self._tasks = [asyncio.ensure_future(queue.work(self._reconcile)) for _ in range(count)]

    async def _reconcile(self, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
        self.batches.append([it.name for it in keys])
        return {it for it in keys if await self._one(it)}

    async def _one(self, it: ObjectKey) -> bool:
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


def test_key_is_reconciled_again_when_it_asked_for_it() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.hold["a"] = asyncio.Event()
        queue.add(key("a"))
        await workers.settle()
        queue.wake_in(key("a"), 25)
        workers.hold["a"].set()
        await asyncio.sleep(100)

        assert workers.done == [("a", 1_000.0), ("a", 1_025.0)]
        await workers.stop()

    run(scenario)


def test_failed_key_that_asked_for_a_later_time_is_retried_before() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.hold["a"], workers.failures["a"] = asyncio.Event(), 1
        queue.add(key("a"))
        await workers.settle()
        queue.wake_in(key("a"), 25)
        workers.hold["a"].set()
        await asyncio.sleep(100)

        assert workers.done == [("a", 1_000.0), ("a", 1_000.5)]
        await workers.stop()

    run(scenario)


def test_only_a_key_that_waits_for_its_retry_is_retried_now() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 1_000
        queue.add(key("a"))
        await asyncio.sleep(100)
        before = len(workers.done)
        for name in "ab":
            queue.retry_now(key(name))
        await workers.settle()

        assert workers.names[before:] == ["a"]
        assert workers.done[-1][1] == 1_100.0
        await workers.stop()

    run(scenario)


def test_key_that_is_marked_often_is_reconciled_once() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
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
        queue = WorkQueue(lambda it: it.namespace)
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
def test_keys_of_one_cluster_are_reconciled_one_at_a_time(groups: tuple[str, str], begun: list[str]) -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
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
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 7
        queue.add(key("a"))
        await asyncio.sleep(7)
        before = len(workers.done)
        queue.progressed(key("a"))
        queue.add(key("a"))
        await asyncio.sleep(0.6)

        assert before == 4
        assert len(workers.done) == before + 2
        await workers.stop()

    run(scenario)


def test_failed_key_is_tried_later_and_later_up_to_the_interval() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 6
        queue.add(key("a"))
        await asyncio.sleep(1_000)

        times = [at for _, at in workers.done]
        waits = [after - before for before, after in pairwise(times)]
        assert waits == [0.5, 1, 2, 4, 4, 4]
        await workers.stop()

    run(scenario)


@pytest.mark.parametrize(("count", "interval_s"), [(1, 4.0), (100, 20.0), (300, 60.0), (1_000, 60.0)])
def test_many_waiting_keys_are_tried_more_rarely(count: int, interval_s: float) -> None:
    """As many tries per second in all, whether 20 keys wait or 300."""

    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        for number in range(count):
            workers.failures[f"k{number}"] = 1_000
            queue.add(key(f"k{number}"))
        await asyncio.sleep(1_000)

        times = [at for name, at in workers.done if name == "k0"]
        assert times[-1] - times[-2] == pytest.approx(interval_s, rel=0.02)
        assert queue.interval_s() == pytest.approx(interval_s, rel=0.02)
        await workers.stop()

    run(scenario)


def test_key_that_fails_for_days_is_still_tried() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        workers = Workers(queue)
        workers.failures["a"] = 1_200
        queue.add(key("a"))
        await asyncio.sleep(4 * 1_500)

        assert len(workers.done) == 1_201
        await workers.stop()

    run(scenario)


def test_success_resets_the_backoff() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
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
        queue = WorkQueue(lambda it: it.namespace)
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
        queue = WorkQueue(lambda it: it.namespace)
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


def test_long_queue_that_moves_does_not_stand_still() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        for number in range(10):
            queue.add(key(f"k{number}"))
        await asyncio.sleep(100)
        assert (queue.oldest_age_s(), queue.standstill_s()) == (100, 100)

        async def slowly(keys: Sequence[ObjectKey]) -> Sequence[ObjectKey]:
            await asyncio.sleep(50)
            return keys

        working = asyncio.ensure_future(queue.work(slowly))
        await asyncio.sleep(120)
        assert queue.oldest_age_s() == 220
        assert queue.standstill_s() == 20
        working.cancel()

    run(scenario)


def test_empty_queue_does_not_stand_still() -> None:
    async def scenario() -> None:
        queue = WorkQueue(lambda it: it.namespace)
        await asyncio.sleep(100)
        assert queue.standstill_s() == 0

    run(scenario)


class TestTogether:
    """Topics, or Users, of one cluster are taken together."""

    def test_one_kind_and_cluster_at_a_time(self) -> None:
        async def scenario() -> None:
            queue = WorkQueue(lambda it: it.namespace)
            for kind, cluster, name in [
                ("Topic", "x", "a"),
                ("User", "x", "b"),
                ("Topic", "y", "c"),
                ("Cluster", "x", "x"),
                ("Topic", "x", "d"),
                ("User", "x", "e"),
            ]:
                queue.add(ObjectKey(kind, cluster, name))
            workers = Workers(queue)
            await workers.settle()

            assert workers.batches == [["a", "d"], ["b", "e"], ["c"], ["x"]]
            await workers.stop()

        run(scenario)

    def test_no_more_than_so_many(self) -> None:
        async def scenario() -> None:
            queue = WorkQueue(lambda it: it.namespace)
            for number in range(TOGETHER_MAX + 1):
                queue.add(ObjectKey("Topic", "x", str(number)))
            workers = Workers(queue)
            await workers.settle()

            assert [len(it) for it in workers.batches] == [TOGETHER_MAX, 1]
            await workers.stop()

        run(scenario)

    def test_key_that_fails_its_batch_ends_up_alone(self) -> None:
        async def scenario() -> None:
            queue = WorkQueue(lambda it: it.namespace)
            done: set[str] = set()
            sizes = []

            async def reconcile(keys: Sequence[ObjectKey]) -> set[ObjectKey]:
                sizes.append(len(keys))
                if any(it.name == "7" for it in keys):
                    return set()
                done.update(it.name for it in keys)
                return set(keys)

            for number in range(20):
                queue.add(ObjectKey("Topic", "x", str(number)))
            worker = asyncio.ensure_future(queue.work(reconcile))
            await asyncio.sleep(600)
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

            assert done == {str(number) for number in range(20)} - {"7"}
            assert sizes[-1] == 1

        run(scenario)

    def test_cluster_is_locked_while_one_of_its_objects_moves_to_another(self) -> None:
        async def scenario() -> None:
            clusters = {"a": "x", "b": "x"}
            queue = WorkQueue(lambda it: clusters[it.name])
            workers = Workers(queue, count=2)
            workers.hold["a"] = asyncio.Event()
            queue.add(ObjectKey("Topic", "", "a"))
            await workers.settle()
            clusters["a"] = "y"
            queue.add(ObjectKey("Topic", "", "b"))
            await workers.settle()
            assert workers.begun == ["a"]
            workers.hold["a"].set()
            await workers.settle()

            assert workers.names == ["a", "b"]
            await workers.stop()

        run(scenario)
