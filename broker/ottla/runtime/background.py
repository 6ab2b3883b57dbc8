"""`BackgroundThreads`: `ottla.ports.Background` on a small pool of threads.

A thread is created when work waits and fewer than the maximum exist; it lives until `close`. The threads leave a core
to the loop where both want it, as the one of `step_thread` does. Completions return to the loop through ``post``.

The pool is not a ThreadPoolExecutor: that one has queued the work already when it raises for want of a thread, so work
that `run` reports as failed could still be done.
"""

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

from ottla.runtime.step_thread import lower_thread_priority

T = TypeVar("T")

logger = logging.getLogger(__name__)

THREADS_MAX: Final = 4


class BackgroundThreads:
    """See the module.

    Args of the constructor:
        post: called from a thread with a function that the loop must call.
        threads_max: how much work may run at once.
    """

    def __init__(
        self, post: Callable[[Callable[[], None]], object], *, threads_max: int = min(THREADS_MAX, os.cpu_count() or 1)
    ) -> None:
        self._post = post
        self._threads_max = threads_max
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._pending = 0
        """Work that was given to `run` and whose ``done`` the loop has not called; only the loop changes it."""
        self._is_closed = False

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See `ottla.ports.Background.run`; to be called on the loop only."""

        def complete(outcome: T | Exception) -> None:
            self._pending -= 1
            if not self._is_closed:
                done(outcome)

        self._pending += 1
        error = self._start_thread() if self._pending > len(self._threads) else None
        if error is not None and not self._threads:
            failure = error
            self._post(lambda: complete(failure))
            return
        self._queue.put(lambda: self._perform(work, complete))

    def _start_thread(self) -> RuntimeError | None:
        """Start one more thread where that is allowed; return the error when the system has none left."""
        if len(self._threads) >= self._threads_max or self._is_closed:
            return None
        # A daemon, because work that does not end must not keep the process from ending.
        thread = threading.Thread(target=self._serve, name="ottla-background", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            logger.warning("background threads: cannot start another beside %d: %s", len(self._threads), error)
            return error
        self._threads.append(thread)
        return None

    def _serve(self) -> None:
        lower_thread_priority()
        while (perform := self._queue.get()) is not None:
            perform()
            # The loop is ready to serve the outcome; on a core of its own it would wait for the kernel's slice to end.
            os.sched_yield()

    def _perform(self, work: Callable[[], T], complete: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:  # the caller of `run` decides about every exception of its work
            outcome = error
        self._post(lambda: complete(outcome))

    def close(self) -> None:
        """Drop the work that no thread has begun, wait for the rest, and end the threads; ``done`` is not called."""
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
