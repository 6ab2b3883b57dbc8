"""`StallReport`: logs what a stalled event loop does.

The stack is taken while the loop is stalled, with the state of its thread.
"""

import logging
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Final

from ottla.metrics.loop import LoopMetrics
from ottla.runtime.thread_state import WAITS_FOR_DISK, read_thread_state

logger = logging.getLogger(__name__)

_FRAMES_MAX: Final = 12
_PACKAGE_FOLDER: Final = str(Path(__file__).parents[2]) + os.sep
_STATES: Final = {
    WAITS_FOR_DISK: "waits for a disk or another device",
    "R": "runs, or waits for a core",
    "S": "sleeps in a system call, or waits for another thread",
    "T": "is stopped",
}


class StallReport:
    """Implements `StallResponse`; created on the thread of the loop."""

    def __init__(self, metrics: LoopMetrics) -> None:
        self._metrics = metrics
        self._thread, self._native_thread = threading.get_ident(), threading.get_native_id()

    def on_stalled(self, stalled_ms: int) -> None:
        self._metrics.stalls += 1
        logger.warning(
            "the event loop has been busy for %d ms (ottla.loop.stall.ms) and serves no connection meanwhile; its "
            "thread %s in: %s",
            stalled_ms,
            self._thread_state(),
            self._stack(),
        )

    def on_recovered(self, stalled_ms: int) -> None:
        logger.warning("the event loop runs again; it was stalled for up to %d ms", stalled_ms)

    def _thread_state(self) -> str:
        return _STATES.get(read_thread_state(self._native_thread), "is")

    def _stack(self) -> str:
        """Return the functions under way, the innermost first; without arguments, which may be secrets or long."""
        frame: FrameType | None = sys._current_frames().get(self._thread)
        calls: list[str] = []
        # Not `traceback`, which reads the source files: their disk may be the one that does not respond.
        while frame is not None and len(calls) < _FRAMES_MAX:
            code = frame.f_code
            calls.append(f"{code.co_name} ({code.co_filename.removeprefix(_PACKAGE_FOLDER)}:{frame.f_lineno})")
            frame = frame.f_back
        return " < ".join(calls)
