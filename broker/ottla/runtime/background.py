"""`BackgroundThreads`: `ottla.ports.Background` on a few worker threads that yield the CPU to the loop.

They run at a lower priority, as `step_thread` does: when loop and worker compete for a core, the loop gets it.
Completions return to the loop through ``post``.
"""

import os
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.runtime.step_thread import lower_thread_priority
from ottla.runtime.worker_threads import WorkerThreads

T = TypeVar("T")

THREADS_MAX: Final = 4


class BackgroundThreads:
    """Thread pool behind `ottla.ports.Background`.

    Args of the constructor:
        post: schedules a function on the loop; called from worker threads.
        threads_max: maximum of concurrent work items.
    """

    def __init__(
        self, post: Callable[[Callable[[], None]], object], *, threads_max: int = min(THREADS_MAX, os.cpu_count() or 1)
    ) -> None:
        self._post = post
        self._threads = WorkerThreads("ottla-background", threads_max)
        self._is_closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See `ottla.ports.Background.run`; call it on the loop only."""

        def complete(outcome: T | Exception) -> None:
            if not self._is_closed:
                done(outcome)

        if not self._threads.submit(lambda: self._perform(work, complete)):
            failure = RuntimeError("no thread can be started for work off the loop")
            self._post(lambda: complete(failure))

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

    def close(self) -> None:
        """Drop work that has not started, wait for the rest, and end the threads; ``done`` is not called."""
        self._is_closed = True
        self._threads.drop_waiting()
        self._threads.close()
