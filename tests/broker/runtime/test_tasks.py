"""Tasks run step by step in a process of their own, whose death and whose end are those of a step."""

import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ottla.errors import CorruptRecordError, ShortageError
from ottla.ports import Task
from ottla.runtime.background import BackgroundWorkers
from ottla.runtime.disk import OsDisk

TIMEOUT_S = 30


class Loop:
    """Fake loop: posted actions wait until the test runs them."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()

    def run_one(self) -> None:
        self.posted.get(timeout=TIMEOUT_S)()

    def advance(self, task: Task[object]) -> object:
        outcomes: list[object] = []
        task.advance(outcomes.append)
        assert outcomes == []
        self.run_one()
        return outcomes[0]


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def workers(loop: Loop) -> Iterator[BackgroundWorkers]:
    workers = BackgroundWorkers(loop.posted.put)
    yield workers
    workers.close()


def count(first: int) -> Iterator[int]:
    while True:
        yield first
        first += 1


def process_ids() -> Iterator[int]:
    while True:
        yield os.getpid()


def corrupt() -> Iterator[int]:
    yield 1
    raise CorruptRecordError("the batch at offset 7")


def defective() -> Iterator[int]:
    yield 1 // 0


def printing() -> Iterator[int]:
    print("a line on standard output")
    yield 1


def writing(disk: OsDisk, path: str) -> Iterator[int]:
    yield disk.open(path, create=True).pwritev([b"abc"], 0)


def test_steps_are_those_of_one_iterator_in_another_process(workers: BackgroundWorkers, loop: Loop) -> None:
    task = workers.start_task(partial(count, 5))

    assert [loop.advance(task) for _ in range(3)] == [5, 6, 7]
    assert loop.advance(workers.start_task(process_ids)) != os.getpid()


def test_exceptions_arrive_with_their_type_and_message(workers: BackgroundWorkers, loop: Loop) -> None:
    task = workers.start_task(corrupt)
    loop.advance(task)
    outcome = loop.advance(task)

    assert isinstance(outcome, CorruptRecordError)
    assert outcome.message == "the batch at offset 7"


def test_defect_arrives_with_its_traceback(workers: BackgroundWorkers, loop: Loop) -> None:
    outcome = loop.advance(workers.start_task(defective))

    assert isinstance(outcome, ZeroDivisionError)
    assert "in defective" in outcome.__notes__[0]


def test_print_of_a_task_is_no_result(workers: BackgroundWorkers, loop: Loop) -> None:
    assert loop.advance(workers.start_task(printing)) == 1


def test_disk_of_a_task_has_the_same_files(workers: BackgroundWorkers, loop: Loop, tmp_path: Path) -> None:
    disk = OsDisk(loop.posted.put)

    assert loop.advance(workers.start_task(partial(writing, disk, str(tmp_path / "file")))) == 3
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_next_task_has_the_process_of_a_closed_one(workers: BackgroundWorkers, loop: Loop) -> None:
    first, second = workers.start_task(process_ids), workers.start_task(process_ids)
    ids = [loop.advance(first), loop.advance(second)]
    first.close()

    assert ids[0] != ids[1]
    assert loop.advance(workers.start_task(process_ids)) == ids[0]


def test_closed_task_leaves_no_state_to_the_next(workers: BackgroundWorkers, loop: Loop) -> None:
    first = workers.start_task(partial(count, 5))
    loop.advance(first)
    first.close()

    assert loop.advance(workers.start_task(partial(count, 8))) == 8


def test_process_that_is_killed_fails_the_step_and_the_next_task_has_another(
    workers: BackgroundWorkers, loop: Loop
) -> None:
    task = workers.start_task(process_ids)
    killed = loop.advance(task)
    assert isinstance(killed, int)
    os.kill(killed, signal.SIGKILL)
    failures = [loop.advance(task), loop.advance(task)]
    task.close()

    assert [type(failure) for failure in failures] == [ShortageError, ShortageError]
    assert loop.advance(workers.start_task(process_ids)) not in (killed, os.getpid())


def test_process_that_cannot_be_started_fails_the_step(
    workers: BackgroundWorkers, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without_program:
        without_program.setattr(sys, "executable", "/nowhere/python")
        assert isinstance(loop.advance(workers.start_task(process_ids)), ShortageError)

    assert isinstance(loop.advance(workers.start_task(process_ids)), int)


def test_thread_that_cannot_be_started_fails_the_step(
    workers: BackgroundWorkers, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot_start(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr("threading.Thread.start", cannot_start)
        task = workers.start_task(process_ids)
        assert isinstance(loop.advance(task), RuntimeError)
        task.close()


def is_running(process_id: int) -> bool:
    """Return whether there is such a process that is not a zombie."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_ended(process_id: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while is_running(process_id):
        assert time.monotonic() < deadline, f"process {process_id} still runs"
        time.sleep(0.01)


def test_process_without_a_task_ends_after_a_while(loop: Loop) -> None:
    workers = BackgroundWorkers(loop.posted.put, idle_s=0.01)
    task = workers.start_task(process_ids)
    process_id = loop.advance(task)
    assert isinstance(process_id, int)
    loop.run_one()  # the task has it, and does nothing
    assert is_running(process_id)
    task.close()
    loop.run_one()
    wait_until_ended(process_id)

    assert isinstance(loop.advance(workers.start_task(process_ids)), int)
    workers.close()


def test_close_kills_the_process_of_a_task(loop: Loop) -> None:
    workers = BackgroundWorkers(loop.posted.put)
    process_id = loop.advance(workers.start_task(process_ids))
    assert isinstance(process_id, int)
    workers.close()

    assert not is_running(process_id)


def test_process_of_a_task_dies_with_its_node(tmp_path: Path) -> None:
    program = """
import queue, sys, time
sys.path.insert(0, sys.argv[1])
from test_tasks import process_ids
from ottla.runtime.background import BackgroundWorkers
posted = queue.Queue()
workers = BackgroundWorkers(posted.put)
workers.start_task(process_ids).advance(lambda outcome: print(outcome, flush=True))
posted.get()()
time.sleep(600)
"""
    folder = str(Path(__file__).parent)
    with subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE, cwd=tmp_path) as node:
        assert node.stdout is not None
        process_id = int(node.stdout.readline())
        node.kill()
    wait_until_ended(process_id)


@pytest.mark.skipif(sys.platform != "linux", reason="flock belongs to the process")
def test_process_of_a_task_holds_the_locks_of_its_node(loop: Loop, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    disk = OsDisk(loop.posted.put)
    disk.lock(path)
    workers = BackgroundWorkers(loop.posted.put, inherited=disk.lock_descriptors)
    loop.advance(workers.start_task(process_ids))
    disk.unlock(path)
    other = OsDisk(loop.posted.put)
    with pytest.raises(OSError, match="temporarily unavailable"):
        other.lock(path)
    workers.close()

    other.lock(path)
    other.close()
