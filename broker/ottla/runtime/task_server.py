"""The process of a `task_process.TaskProcess`: it performs one task at a time, step by step.

Requests arrive as pickles on standard input, and their results leave on standard output. It ends with its parent: the
kernel kills it (Linux), or it reads the end of its input.
"""

import gc
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.runtime.step_thread import lower_thread_priority

_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE: Final = 500
_GC_THRESHOLD: Final = 50_000


class Request(Enum):
    """A request; a callable instead of one starts a task, and performs its first step."""

    ADVANCE = auto()
    CLOSE = auto()


def serve_requests() -> None:
    """Perform requests until the parent closes the pipe."""
    # The parent is what signals are for: it ends this process when it has no more use for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with_parent()
    lower_thread_priority()
    _be_killed_first()
    gc.set_threshold(_GC_THRESHOLD)
    results = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # A stray print must not become a part of a result.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    steps: Iterator[object] | None = None
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)  # noqa: S301 -- the parent's own objects
        except EOFError:
            return
        if request is Request.CLOSE:
            steps = None
            continue
        outcome, steps = _perform(request, steps)
        try:
            pickle.dump(outcome, results)
            results.flush()
        except BrokenPipeError:
            return


def _perform(request: object, steps: Iterator[object] | None) -> tuple[object, Iterator[object] | None]:
    """Return the result of a step or its exception, and the task's other steps."""
    try:
        if callable(request):
            steps = request()
        assert steps is not None, "no task was started"
        return next(steps), steps
    except Exception as error:  # the owner of the task decides about it
        if not isinstance(error, OttlaError):
            # A traceback cannot be pickled.
            error.add_note(traceback.format_exc())
        return error, None


def _die_with_parent() -> None:
    """Have the kernel end this process with its parent: it must not write where the next node recovers its logs."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _be_killed_first() -> None:
    """Have the kernel prefer this process to the broker when memory is short: its work is tried again."""
    try:
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE))
    except OSError:  # another system than Linux, or a sandbox
        return
