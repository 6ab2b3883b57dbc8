"""Steps are taken on one thread beside the loop, in order, until it is closed."""

import errno
import os
import threading

import pytest

from ottla.runtime.step_thread import NICENESS, StepThread


def test_steps_are_taken_in_order_on_one_other_thread() -> None:
    worker, taken, done = StepThread(), list[tuple[int, int]](), threading.Event()
    for number in range(3):
        worker.submit(lambda number=number: taken.append((number, threading.get_ident())))
    worker.submit(done.set)
    assert done.wait(30)
    worker.close()

    assert [number for number, _ in taken] == [0, 1, 2]
    assert {thread for _, thread in taken} - {threading.get_ident()} == {taken[0][1]}


def test_closing_waits_for_what_was_submitted() -> None:
    worker, taken = StepThread(), list[int]()
    worker.submit(lambda: taken.append(1))
    worker.close()

    assert taken == [1]


def test_one_that_was_never_asked_has_no_thread_to_end() -> None:
    before = threading.active_count()
    StepThread().close()

    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a thread has no niceness of its own here")
def test_its_thread_yields_to_the_loop_and_the_loop_stays_what_it_is() -> None:
    def priority() -> tuple[int, int]:
        return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before, worker, found = priority(), StepThread(), list[tuple[int, int]]()
    worker.submit(lambda: found.append(priority()))
    worker.close()

    assert found == [(os.SCHED_BATCH, max(before[1], NICENESS))]
    assert priority() == before


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="a thread has no niceness of its own here")
def test_steps_are_taken_where_the_system_leaves_priorities_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    worker, taken = StepThread(), list[int]()
    worker.submit(lambda: taken.append(1))
    worker.close()

    assert taken == [1]
