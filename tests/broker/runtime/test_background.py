"""Work runs on other threads; its outcome reaches the loop exactly once, also if no thread can be started."""

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.runtime.background import BackgroundWorkers


class Loop:
    """Fake loop: posted actions wait until the test runs them."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()

    def run_one(self) -> None:
        self.posted.get(timeout=30)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def background(loop: Loop) -> Iterator[BackgroundWorkers]:
    background = BackgroundWorkers(loop.posted.put, threads_max=2)
    yield background
    background.close()


def test_work_runs_on_another_thread_and_completes_on_the_loop(background: BackgroundWorkers, loop: Loop) -> None:
    outcomes: list[tuple[object, int]] = []
    background.run(threading.get_ident, lambda outcome: outcomes.append((outcome, threading.get_ident())))
    assert outcomes == []
    loop.run_one()

    ((worker, caller),) = outcomes
    assert caller == threading.get_ident() != worker


def test_exception_of_the_work_is_its_outcome(background: BackgroundWorkers, loop: Loop) -> None:
    outcomes: list[object] = []
    background.run(lambda: 1 // 0, outcomes.append)
    loop.run_one()

    assert [type(outcome) for outcome in outcomes] == [ZeroDivisionError]


def test_work_is_done_at_the_same_time_up_to_the_number_of_threads(background: BackgroundWorkers, loop: Loop) -> None:
    both_run = threading.Barrier(2)
    outcomes: list[object] = []
    for _ in range(2):
        background.run(lambda: both_run.wait(30) >= 0, outcomes.append)
    for _ in range(2):
        loop.run_one()

    assert outcomes == [True, True]


def test_no_thread_is_created_before_the_first_work(loop: Loop) -> None:
    before = threading.active_count()
    BackgroundWorkers(loop.posted.put).close()

    assert threading.active_count() == before


def _cannot_start(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_missing_thread_fails_work_and_later_work_retries(
    background: BackgroundWorkers, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[object] = []
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", _cannot_start)
        background.run(lambda: 1, outcomes.append)
    assert outcomes == []
    loop.run_one()
    background.run(lambda: 2, outcomes.append)
    loop.run_one()

    assert isinstance(outcomes[0], RuntimeError)
    assert outcomes[1:] == [2]


def test_one_thread_does_all_work_if_no_more_can_be_started(
    background: BackgroundWorkers, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[object] = []
    may_end = threading.Event()
    background.run(lambda: may_end.wait(30), outcomes.append)
    monkeypatch.setattr(threading.Thread, "start", _cannot_start)
    background.run(lambda: 2, outcomes.append)
    may_end.set()
    for _ in range(2):
        loop.run_one()

    assert outcomes == [True, 2]


def test_nothing_completes_after_close(loop: Loop) -> None:
    background = BackgroundWorkers(loop.posted.put, threads_max=1)
    outcomes: list[object] = []
    for number in range(3):
        background.run(lambda number=number: number, outcomes.append)  # type: ignore[misc]
    background.close()
    while not loop.posted.empty():
        loop.run_one()

    assert outcomes == []
