"""`in_background`: a step that waits for work off the loop.

    value = yield from in_background(background, work)

The value is the result of ``work``; its exception is raised there, as if it had been called in place. Closing a
generator that waits does not stop the work: memory that the work uses must be counted until the work has ended, so such
callers pass ``on_end``.
"""

from collections.abc import Callable
from typing import TypeVar

from ottla.ports import Background
from ottla.purgatory.delayed import Delayed
from ottla.purgatory.steps import Steps

T = TypeVar("T")


def in_background(
    background: Background, work: Callable[[], T], *, on_end: Callable[[], object] | None = None
) -> Steps[T]:
    """Perform ``work`` off the loop and return its result.

    Args:
        background: performs the work.
        work: see `Background.run`.
        on_end: called on the loop when the work has ended, with or without an exception, and before the generator
            resumes; also if the generator has been closed meanwhile.

    Raises:
        Exception: that of ``work``; RuntimeError if no thread could be created.
    """
    outcome: Delayed[T | Exception] = Delayed()

    def done(value: T | Exception) -> None:
        if on_end is not None:
            on_end()
        outcome.complete(value)

    background.run(work, done)
    value: T | Exception = yield outcome
    if isinstance(value, Exception):
        raise value
    return value
