"""`WorkerThreads`: a small thread pool for work that would block the loop; it tolerates a shortage of threads.

A thread is started when work is submitted while all are busy, up to a bound. If the system starts no more (a limit of
processes, or of memory), the existing threads do the work; without any, the caller has to run or to fail it.
`concurrent.futures` raises RuntimeError in both cases, and in the first has queued the work nevertheless.
"""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

logger = logging.getLogger(__name__)


class WorkerThreads:
    """Thread pool; its methods are called on one thread, the owner's.

    Args of the constructor:
        name: prefix of the threads' names.
        count_max: maximum number of threads.
    """

    def __init__(self, name: str, count_max: int) -> None:
        self._name = name
        self._count_max = count_max
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._has_reported = False

    def submit(self, work: Callable[[], object]) -> bool:
        """Run ``work`` on a thread; return False if there is no thread, and the caller has to run it."""
        # Queued first, so that a new thread takes it at once and does not count as idle.
        self._queue.put(work)
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count_max:
            self._start_one()
            if not self._threads:
                self._queue.get_nowait()
                return False
        return True

    def close(self) -> None:
        """Wait for the submitted work, and end the threads."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def drop_waiting(self) -> None:
        """Drop work that no thread has started."""
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            pass

    def _start_one(self) -> None:
        # A daemon thread: a disk that does not respond must not keep the process from exiting.
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            if not self._has_reported:
                self._has_reported = True
                logger.warning(
                    "cannot start a thread for %s (%d of %d are running): %s; check the limit of processes (pids)",
                    self._name,
                    len(self._threads),
                    self._count_max,
                    error,
                )
            return
        self._has_reported = False
        self._threads.append(thread)

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get_nowait()
            except Empty:
                self._idle.release()
                work = self._queue.get()
            if work is None:
                return
            try:
                work()
            except Exception:
                logger.exception("work on a thread of %s failed", self._name)
            # While waiting for more work, this frame must not keep the last one's files open.
            del work
