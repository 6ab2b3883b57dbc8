"""`StepThread`: a thread for OpenSSL's computations, which run without the interpreter's lock."""

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

logger = logging.getLogger(__name__)

NICENESS: Final = 5


class StepThread:
    """Thread that runs submitted work in order; it starts with the first."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Run ``work`` on the thread; it must not raise.

        Raises:
            RuntimeError: the thread cannot be started.
        """
        if self._thread is None:
            # A daemon thread: a step that blocks must not keep the process from exiting.
            thread = threading.Thread(target=self._run, name="ottla-tls", daemon=True)
            thread.start()
            self._thread = thread
        self._queue.put(work)

    def close(self) -> None:
        """End the thread after all submitted work."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        lower_thread_priority()
        while (work := self._queue.get()) is not None:
            work()
            # With a single core the loop would otherwise serve no client until the kernel's time slice ends, which is
            # as long as a dozen steps.
            os.sched_yield()


def lower_thread_priority() -> None:
    """Lower the priority of this thread alone (Linux), so that the loop preempts it at once on a shared core."""
    if not hasattr(os, "SCHED_BATCH"):
        return
    thread = threading.get_native_id()
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
    except OSError as error:  # a sandbox without thread priorities; the thread is needed anyway
        logger.debug("%s keeps the priority of the loop: %s", threading.current_thread().name, error)
