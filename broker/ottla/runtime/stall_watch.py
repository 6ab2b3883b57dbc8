"""`StallWatch`: a thread that reports an event loop which serves no connection for too long, and what the loop does.

One Python thread serves all connections of a node. A disk that does not respond, a defect or a very busy host can stop
it, and then no metric and no response of the node says why. So the stack is taken while the loop is stalled, with the
state of its thread: ``D`` is a system call that waits for a disk, ``R`` runs or waits for a core, ``S`` sleeps.

A process that was paused as a whole is not a stall: then this thread did not run either.
"""

import logging
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from ottla.metrics.loop import LoopMetrics
from ottla.ports import Clock

logger = logging.getLogger(__name__)

_FRAMES_MAX: Final = 12
_CHECKS_PER_BOUND: Final = 4
_PACKAGE_FOLDER: Final = str(Path(__file__).parents[2]) + os.sep
_STATES: Final = {
    "D": "waits for a disk or another device",
    "R": "runs, or waits for a core",
    "S": "sleeps in a system call, or waits for another thread",
    "T": "is stopped",
}


class WatchedLoop(Protocol):
    """`runtime.event_loop.EventLoop`."""

    busy_since_ns: int
    """Monotonic start of the iteration that is under way; 0 while the loop waits for events."""


class StallWatch:
    """See the module.

    Args of the constructor:
        loop: runs on the thread that calls `start`.
        bound_ms: an iteration that takes longer is reported.
    """

    def __init__(self, loop: WatchedLoop, clock: Clock, metrics: LoopMetrics, bound_ms: int) -> None:
        self._loop = loop
        self._clock = clock
        self._metrics = metrics
        self._bound_ns = bound_ms * 1_000_000
        self._period_s = bound_ms / 1000 / _CHECKS_PER_BOUND
        self._closing = threading.Event()
        self._reported_ns = 0
        """Start of the iteration that was reported, until the loop has ended it."""
        self._checked_ns = clock.monotonic_ns()
        self._thread = threading.Thread(target=self._run, name="ottla-stall-watch", daemon=True)
        self._watched = self._watched_native = 0

    def start(self) -> None:
        """Watch the calling thread.

        Raises:
            RuntimeError: the system does not start a thread.
        """
        self._watched, self._watched_native = threading.get_ident(), threading.get_native_id()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._period_s):
            self.check()

    def check(self) -> None:
        """Report the iteration that is under way if it has taken too long."""
        now_ns = self._clock.monotonic_ns()
        # What this thread overslept, the loop's thread may have waited for a core, too.
        late_ns = max(0, now_ns - self._checked_ns - round(self._period_s * 1e9))
        self._checked_ns = now_ns
        busy_since_ns = self._loop.busy_since_ns
        if self._reported_ns and busy_since_ns != self._reported_ns:
            logger.warning("the event loop runs again; it was stalled for up to %d ms", self._stalled_ms(now_ns))
            self._reported_ns = 0
        if not busy_since_ns or self._reported_ns or now_ns - busy_since_ns - late_ns < self._bound_ns:
            return
        self._reported_ns = busy_since_ns
        self._metrics.stalls += 1
        logger.warning(
            "the event loop has been busy for %d ms (ottla.loop.stall.ms) and serves no connection meanwhile; its "
            "thread %s in: %s",
            self._stalled_ms(now_ns),
            self._thread_state(),
            self._stack(),
        )

    def _stalled_ms(self, now_ns: int) -> int:
        return (now_ns - self._reported_ns) // 1_000_000

    def _thread_state(self) -> str:
        try:
            status = Path(f"/proc/self/task/{self._watched_native}/stat").read_text()
        except OSError:  # another system than Linux
            return "is"
        return _STATES.get(status.rpartition(") ")[2][:1], "is")

    def _stack(self) -> str:
        """Return the functions under way, the innermost first; without arguments, which may be secrets or long."""
        frame: FrameType | None = sys._current_frames().get(self._watched)
        calls: list[str] = []
        # Not `traceback`, which reads the source files: their disk may be the one that does not respond.
        while frame is not None and len(calls) < _FRAMES_MAX:
            code = frame.f_code
            calls.append(f"{code.co_name} ({code.co_filename.removeprefix(_PACKAGE_FOLDER)}:{frame.f_lineno})")
            frame = frame.f_back
        return " < ".join(calls)
