"""Work is done by fewer threads if more cannot be started, and left to the caller if none can."""

import threading
from collections.abc import Callable

import pytest

from ottla.runtime.worker_threads import WorkerThreads

StartLimit = Callable[[int], None]


def test_work_is_done_on_as_many_threads_as_are_busy() -> None:
    threads, may_end = WorkerThreads("test", 2), threading.Event()
    begun = threading.Barrier(3)

    def work() -> None:
        begun.wait(30)
        may_end.wait(30)

    assert [threads.submit(work), threads.submit(work)] == [True, True]
    begun.wait(30)
    late: list[str] = []
    threads.submit(lambda: late.append(threading.current_thread().name))
    may_end.set()
    threads.close()

    assert late in (["test_0"], ["test_1"])


def test_without_any_thread_the_work_is_left_to_the_caller(start_limit: StartLimit) -> None:
    threads, done = WorkerThreads("test", 2), list[int]()
    start_limit(0)

    assert not threads.submit(lambda: done.append(1))
    threads.close()
    assert not done


def test_threads_that_run_do_the_work_of_those_that_cannot_be_started(
    start_limit: StartLimit, caplog: pytest.LogCaptureFixture
) -> None:
    threads, done, may_begin = WorkerThreads("test", 4), list[int](), threading.Event()
    start_limit(1)
    threads.submit(lambda: may_begin.wait(30))
    for number in range(10):
        assert threads.submit(lambda number=number: done.append(number))
    may_begin.set()
    threads.close()

    assert done == list(range(10))
    assert [record.getMessage() for record in caplog.records] == [
        "cannot start a thread for test (1 of 4 are running): can't start new thread; check the limit of processes "
        "(pids)"
    ]


def test_work_that_raises_ends_no_thread() -> None:
    threads, done = WorkerThreads("test", 1), list[int]()

    def fail() -> None:
        raise ZeroDivisionError

    threads.submit(fail)
    threads.submit(lambda: done.append(1))
    threads.close()

    assert done == [1]


def test_work_that_has_not_started_can_be_dropped() -> None:
    threads, done, begun, may_end = WorkerThreads("test", 1), list[int](), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(30)

    threads.submit(work)
    assert begun.wait(30)
    threads.submit(lambda: done.append(1))
    threads.drop_waiting()
    may_end.set()
    threads.close()

    assert not done
