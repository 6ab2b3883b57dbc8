"""`SimulatedBackground`: `ottla.ports.BackgroundTasks` as events that can be late, fail, or die with the process.

Threads read their arguments at some moment between `run` and its completion. With ``random`` the work is therefore
performed either at once or only when it completes, so that a seed finds work on data that the loop changes before that.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from ottla.ports import Random

T = TypeVar("T")


class SimulatedBackground:
    """The background threads of one node; it outlives the process, whose work `kill` ends.

    Args of the constructor:
        schedule: given each completion as a function that performs it; the simulator's loop calls it when it likes.
            Without one they wait until `complete_work`.
        random: decides when work is performed and whether it fails; None: when it completes, and never.
    """

    def __init__(
        self,
        *,
        schedule: Callable[[Callable[[], None]], object] | None = None,
        random: Random | None = None,
    ) -> None:
        self.run_count = 0
        """How often `run` was called."""
        self.fails_one_in = 0
        """How often no thread can be created; 0 for never."""
        self._waiting: deque[Callable[[], None]] = deque()
        self._schedule = schedule or self._waiting.append
        self._random = random
        self._failures_left = 0
        self._generation = 0

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """See `ottla.ports.Background.run`."""
        self.run_count += 1
        if self._fails():
            self._complete_later(done, lambda: RuntimeError("can't start new thread"))
        elif self._random is not None and self._random.randrange(2):
            outcome = _perform(work)
            self._complete_later(done, lambda: outcome)
        else:
            self._complete_later(done, lambda: _perform(work))

    def start_task(self, create: Callable[[], Iterator[T]]) -> "_SimulatedTask[T]":
        """See `ottla.ports.BackgroundTasks.start_task`; each step is an event like any other work."""
        return _SimulatedTask(self, create)

    def _fails(self) -> bool:
        if self._failures_left:
            self._failures_left -= 1
            return True
        return self._random is not None and bool(self.fails_one_in) and not self._random.randrange(self.fails_one_in)

    def _complete_later(self, done: Callable[[T | Exception], None], take_outcome: Callable[[], T | Exception]) -> None:
        generation = self._generation

        def complete() -> None:
            if generation == self._generation:
                done(take_outcome())

        self._schedule(complete)

    # --- called by tests and the simulator

    def complete_work(self) -> int:
        """Complete all waiting work, also work that the completions start; return the number."""
        count = 0
        while self._waiting:
            self._waiting.popleft()()
            count += 1
        return count

    def fail_next(self, count: int = 1) -> None:
        """Let the next ``count`` calls of `run` fail, as where the system has no thread left."""
        self._failures_left += count

    def kill(self) -> None:
        """End the process: nothing that it has run completes any more."""
        self._generation += 1
        self._waiting.clear()


class _SimulatedTask(Generic[T]):
    """A task whose steps are performed in this process, and die with it."""

    def __init__(self, background: SimulatedBackground, create: Callable[[], Iterator[T]]) -> None:
        self._background = background
        self._create = create
        self._steps: Iterator[T] | None = None

    def advance(self, done: Callable[[T | Exception], None]) -> None:
        self._background.run(self._step, done)

    def _step(self) -> T:
        if self._steps is None:
            self._steps = self._create()
        return next(self._steps)

    def close(self) -> None:
        self._steps = None


def _perform(work: Callable[[], T]) -> T | Exception:
    try:
        return work()
    except Exception as error:  # as on threads, the caller of `run` decides about it
        return error
