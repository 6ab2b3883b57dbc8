"""`StepRunner`: runs the `Steps` of many requests, a slice of each at a time, between the events of the loop.

The first slice runs where the work is started, so that most work never waits. The rest is served round-robin: each loop
iteration gives slices to the oldest until its time is used up. A slice ends at the first slice point after its time;
generators have one at least every 200 us.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ottla.ports import Clock
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps

T = TypeVar("T")

_SLICE_NS: Final = 100_000
"""Per first slice, and per loop iteration; pipelined requests have theirs (`fair_scheduler`)."""
_NO_STEP_LIMIT: Final = 2**62

logger = logging.getLogger(__name__)


class _Run(Generic[T]):
    """One started generator; ``value`` is sent to it next."""

    __slots__ = ("is_canceled", "is_running", "is_waiting", "on_slice", "result", "steps", "value")

    def __init__(self, steps: Steps[T], on_slice: Callable[[int], object] | None) -> None:
        self.steps = steps
        self.on_slice = on_slice
        self.result: Delayed[T] = Delayed()
        self.value: object = None
        self.is_canceled = False
        self.is_running = False
        self.is_waiting = False

    def cancel(self) -> None:
        """Close the generator; one that cancels itself ends at its next slice point."""
        self.is_canceled = True
        if not self.is_running:
            self.steps.close()


class StepRunner:
    """Round-robin runner of generators.

    ``steps_max`` returns the maximum number of steps of the next slice; the simulator, whose clock stands still while
    code runs, draws it, so that slices of any length are interleaved with other events.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[_Run[Any]] = deque()
        self._waiting = 0
        self.steps_max: Callable[[], int] = lambda: _NO_STEP_LIMIT
        self.slices = 0
        """Number of slices run in loop iterations, for the metrics."""

    def __bool__(self) -> bool:
        """Whether a slice can be run now."""
        return bool(self._ready)

    def __len__(self) -> int:
        """Return how many generators are in progress, including those that wait for an event."""
        return len(self._ready) + self._waiting

    def start(self, steps: Steps[T], *, on_slice: Callable[[int], object] | None = None) -> Delayed[T]:
        """Run the first slice of ``steps``; return their result, which is complete if one slice was enough.

        Args:
            steps: must not raise; an exception is a defect, is logged, and leaves the result incomplete for ever.
            on_slice: receives the nanoseconds of each later slice.
        """
        run = _Run(steps, on_slice)
        self._run_slice(run, self._clock.monotonic_ns() + _SLICE_NS)
        if not run.result.is_complete:
            run.result.on_abandon = partial(self._cancel, run)
        return run.result

    def run_slices(self) -> bool:
        """Run a slice of each ready generator, the oldest first, until the time is used up; at least one.

        Return whether there was any.
        """
        if not self._ready:
            return False
        started_ns = self._clock.monotonic_ns()
        until_ns = started_ns + _SLICE_NS
        for _ in range(len(self._ready)):
            run = self._ready.popleft()
            if run.is_canceled:
                continue
            self._run_slice(run, until_ns)
            self.slices += 1
            now_ns = self._clock.monotonic_ns()
            if run.on_slice is not None:
                run.on_slice(now_ns - started_ns)
            started_ns = now_ns
            if now_ns >= until_ns:
                break
        return True

    def _run_slice(self, run: "_Run[Any]", until_ns: int) -> None:
        run.is_running = True
        try:
            wait = self._advance(run, until_ns)
        except StopIteration as end:
            run.result.on_abandon = None  # it refers to the run: leave no cycle for the garbage collector
            run.result.complete(end.value)
            return
        except Exception:
            logger.exception("work in slices ended with a defect")
            return
        finally:
            run.is_running = False
        if run.is_canceled:
            run.steps.close()
        elif wait is None:
            self._ready.append(run)
        else:
            self._waiting += 1
            run.is_waiting = True
            wait.on_complete(lambda value: self._resume(run, value))

    def _advance(self, run: "_Run[Any]", until_ns: int) -> "Delayed[Any] | None":
        """Run to the slice's end and return None, or to an event to wait for; raises StopIteration with the result."""
        send, now_ns = run.steps.send, self._clock.monotonic_ns
        value, run.value = run.value, None
        steps_left = self.steps_max()
        while True:
            wait = send(value)
            value = None
            if wait is not None:
                if not wait.is_complete:
                    return wait
                value = wait.value
            steps_left -= 1
            if steps_left <= 0 or now_ns() >= until_ns or run.is_canceled:
                run.value = value
                return None

    def _resume(self, run: "_Run[Any]", value: object) -> None:
        if run.is_waiting:
            self._stop_waiting(run)
            run.value = value
            self._ready.append(run)

    def _cancel(self, run: "_Run[Any]") -> None:
        if run.is_waiting:
            # The event may be abandoned with it, and never complete.
            self._stop_waiting(run)
        run.cancel()

    def _stop_waiting(self, run: "_Run[Any]") -> None:
        run.is_waiting = False
        self._waiting -= 1
