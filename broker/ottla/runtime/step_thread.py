"""`StepThread`: a thread beside the loop for what OpenSSL computes while it does not hold the interpreter's lock."""

import logging
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

logger = logging.getLogger(__name__)

NICENESS: Final = 5


class StepThread:
    """Does one thing after the other, in the order in which they were submitted. It starts with the first."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[], None]) -> None:
        """Have ``work`` done on the thread; it must not raise.

        Raises:
            RuntimeError: the thread cannot be started.
        """
        if self._thread is None:
            # A daemon, because a step that does not end must not keep the process from ending.
            thread = threading.Thread(target=self._run, name="ottla-tls", daemon=True)
            thread.start()
            self._thread = thread
        self._queue.put(work)

    def close(self) -> None:
        """End the thread behind what was submitted."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        lower_thread_priority()
        while (work := self._queue.get()) is not None:
            work()
            # On a core of its own a node would otherwise answer nobody until the kernel's slice is over, which is as
            # long as a dozen steps.
            os.sched_yield()


def lower_thread_priority() -> None:
    """Have this thread alone (Linux) leave a core to the loop where both want it, which waits for no whole slice."""
    if not hasattr(os, "SCHED_BATCH"):
        return
    thread = threading.get_native_id()
    try:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, thread, max(NICENESS, os.getpriority(os.PRIO_PROCESS, thread)))
    except OSError as error:  # a sandbox without such priorities; the thread is needed all the same
        logger.debug("%s has the priority of the loop: %s", threading.current_thread().name, error)
