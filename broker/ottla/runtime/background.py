"""`BackgroundWorkers`: `ottla.ports.BackgroundTasks` on worker threads and in processes that yield the CPU to the loop.

They run at a lower priority, as `step_thread` does: when loop and worker compete for a core, the loop gets it.
Completions return to the loop through ``post``.

A task has a process for itself from its first step to its end. The process then waits for the next task, because
starting one takes 0.1 s of CPU, and ends when none has come for a while.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from ottla.runtime.step_thread import lower_thread_priority
from ottla.runtime.task_process import TaskProcess
from ottla.runtime.task_server import Request
from ottla.runtime.worker_threads import WorkerThreads

T = TypeVar("T")

THREADS_MAX: Final = 4


IDLE_S: Final = 30.0
"""Longer than log.cleaner.backoff.ms is by default."""


class BackgroundWorkers:
    """Thread pool and processes behind `ottla.ports.BackgroundTasks`; its methods are called on the loop only.

    Args of the constructor:
        post: schedules a function on the loop; called from worker threads.
        threads_max: maximum of concurrent work items; tasks are not counted.
        inherited: returns descriptors that the processes of tasks keep open.
        idle_s: how long such a process waits for the next task.
    """

    def __init__(
        self,
        post: Callable[[Callable[[], None]], object],
        *,
        threads_max: int = min(THREADS_MAX, os.cpu_count() or 1),
        inherited: Callable[[], Sequence[int]] = tuple,
        idle_s: float = IDLE_S,
    ) -> None:
        self._post = post
        self._threads = WorkerThreads("ottla-background", threads_max)
        self._inherited = inherited
        self._idle_s = idle_s
        self._processes: set[TaskProcess] = set()
        self._idle_processes: list[TaskProcess] = []
        self._is_closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See `ottla.ports.Background.run`."""
        complete = self._unless_closed(done)
        if not self._threads.submit(lambda: self._perform(work, complete)):
            failure = RuntimeError("no thread can be started for work off the loop")
            self._post(lambda: complete(failure))

    def _unless_closed(self, done: Callable[[T | Exception], None]) -> Callable[[T | Exception], None]:
        def complete(outcome: T | Exception) -> None:
            if not self._is_closed:
                done(outcome)

        return complete

    def _perform(self, work: Callable[[], T], complete: Callable[[T | Exception], None]) -> None:
        lower_thread_priority()
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:  # the caller of `run` decides about every exception of its work
            outcome = error
        self._post(lambda: complete(outcome))
        # The loop is ready to run the completion; on a single core it would wait until the kernel's time slice ends.
        os.sched_yield()

    def start_task(self, create: Callable[[], Iterator[T]]) -> "ProcessTask[T]":
        """See `ottla.ports.BackgroundTasks.start_task`."""
        return ProcessTask(self, create)

    def send(
        self, process: TaskProcess | None, request: object, done: Callable[[T | Exception], None]
    ) -> TaskProcess | None:
        """Have a process perform a request of a task; return the process, None if the system starts no thread for one.

        ``process`` is None for the first request.
        """
        complete = self._unless_closed(done)
        if process is None:
            try:
                process = self._idle_processes.pop() if self._idle_processes else self._start_process()
            except RuntimeError as error:
                failure = error
                self._post(lambda: complete(failure))
                return None
        process.send(request, complete)
        return process

    def _start_process(self) -> TaskProcess:
        process = TaskProcess(self._post, self._end_idle, self._inherited, self._idle_s)
        process.start()
        self._processes.add(process)
        return process

    def give_back(self, process: TaskProcess) -> None:
        """Let the next task have ``process``."""
        process.send(Request.CLOSE)
        self._idle_processes.append(process)

    def _end_idle(self, process: TaskProcess) -> None:
        if process in self._idle_processes:
            self._idle_processes.remove(process)
            self._processes.discard(process)
            process.end()

    def close(self) -> None:
        """Drop work that has not started, wait for the rest, kill tasks, end the threads; ``done`` is not called."""
        self._is_closed = True
        self._threads.drop_waiting()
        for process in self._processes:
            process.kill()
        self._threads.close()


class ProcessTask(Generic[T]):
    """`ottla.ports.Task` in a process of `BackgroundWorkers`."""

    def __init__(self, workers: BackgroundWorkers, create: Callable[[], Iterator[T]]) -> None:
        self._workers = workers
        self._create = create
        self._process: TaskProcess | None = None

    def advance(self, done: Callable[[T | Exception], None]) -> None:
        request = self._create if self._process is None else Request.ADVANCE
        self._process = self._workers.send(self._process, request, done)

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            self._workers.give_back(process)
