"""Steps run on one thread off the loop, in order, until it is closed."""

import errno
import os
import threading

import pytest

from ottla.runtime.step_thread import NICENESS, StepThread


def test_steps_run_in_order_on_one_other_thread() -> None:
    worker, taken, done = StepThread(), list[tuple[int, int]](), threading.Event()
    for number in range(3):
        worker.submit(lambda number=number: taken.append((number, threading.get_ident())))
    worker.submit(done.set)
    assert done.wait(30)
    worker.close()

    assert [number for number, _ in taken] == [0, 1, 2]
    assert {thread for _, thread in taken} - {threading.get_ident()} == {taken[0][1]}


def test_close_waits_for_submitted_steps() -> None:
    worker, taken = StepThread(), list[int]()
    worker.submit(lambda: taken.append(1))
    worker.close()

    assert taken == [1]


def test_close_without_steps_has_no_thread_to_join() -> None:
    before = threading.active_count()
    StepThread().close()

    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a thread has no niceness of its own here")
def test_thread_lowers_its_own_priority_only() -> None:
    def priority() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, worker, found = priority(), StepThread(), list[tuple[int, int]]()
    worker.submit(lambda: found.append(priority()))
    worker.close()

    assert found == [(os.SCHED_BATCH, max(before[1], NICENESS))]
    assert priority() == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a thread has no niceness of its own here")
def test_steps_run_if_priority_cannot_be_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sched_setscheduler", fail)
    worker, taken = StepThread(), list[int]()
    worker.submit(lambda: taken.append(1))
    worker.close()

    assert taken == [1]
