"""`WorkerThreads`: a few threads for work that would stop the loop, which a shortage of threads makes fewer.

One more is started when work comes while all are busy, up to a bound. Where the system starts no more (a limit of
processes, or of memory), those that run do the work; without any the caller has to do it, or to fail it.
`concurrent.futures` raises RuntimeError in both cases, and in the first has queued the work all the same.
"""

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

logger = logging.getLogger(__name__)


class WorkerThreads:
    """See the module. All but the work itself happens on one thread, the owner's.

    Args of the constructor:
        name: of the threads, with a number.
        count_max: how many threads there may be.
    """

    def __init__(self, name: str, count_max: int) -> None:
        self._name = name
        self._count_max = count_max
        self._queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._has_reported = False

    def submit(self, work: Callable[[], object]) -> bool:
        """Have ``work`` done on a thread; return False where there is none, and ``work`` is the caller's to do."""
        # First, so that a new thread takes it at once and does not count as idle.
        self._queue.put(work)
        if not self._idle.acquire(blocking=False) and len(self._threads) < self._count_max:
            self._start_one()
            if not self._threads:
                self._queue.get_nowait()
                return False
        return True

    def close(self) -> None:
        """Wait for the work that was submitted, and end the threads."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def drop_waiting(self) -> None:
        """Leave undone what no thread has begun with."""
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            pass

    def _start_one(self) -> None:
        # A daemon, because a disk that does not return must not keep the process from ending.
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            if not self._has_reported:
                self._has_reported = True
                logger.warning(
                    "cannot start a thread for %s, where %d of %d run: %s; check the limit of processes (pids)",
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
            # A frame that waits for the next work must not keep the files of the last one open.
            del work
