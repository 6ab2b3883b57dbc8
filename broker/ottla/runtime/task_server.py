"""The process of a `task_process.TaskProcess`: it performs one task at a time, step by step.

Requests arrive as pickles on standard input, and their results leave on standard output. It ends with its parent: the
kernel kills it (Linux), or it reads the end of its input.
"""

import gc
import logging
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
from ottla.runtime.step_thread import NICENESS, lower_thread_priority

logger = logging.getLogger(__name__)

_PR_SET_PDEATHSIG: Final = 1
_OOM_SCORE_ADJUSTMENT: Final = "/proc/self/oom_score_adj"
_OOM_SCORE: Final = 500
_AUTOGROUP: Final = "/proc/self/autogroup"
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
    _yield_to_broker()
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


def _yield_to_broker() -> None:
    """Have the kernel prefer the broker when a core or memory is short; what is killed here is tried again."""
    lower_thread_priority()
    # Where no control group does, Linux weighs sessions against each other, and this process has one of its own. In the
    # broker's, each core that it used would delay the broker: beside other load, the p99 of produce was 4 to 8 times
    # that of quiet, and at most 1.7 times with two sessions.
    for path, value in ((_AUTOGROUP, NICENESS), (_OOM_SCORE_ADJUSTMENT, _OOM_SCORE)):
        try:
            Path(path).write_text(str(value))
        except OSError as error:  # another system than Linux, or a sandbox
            logger.debug("cannot write %s: %s", path, error)
