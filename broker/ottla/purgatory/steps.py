"""`Steps`: work that is done a slice at a time, written as a generator.

Whatever may take longer than a millisecond on the loop is written as a generator function. It yields None where it may
be interrupted, which must be at least once per 200 us of its work; it yields a `Delayed` where it has to wait (work off
the loop, records that are not committed yet) and receives the value of that `Delayed` in return. Its return value is
the result. The caller decides how long it runs: `server.scheduler` on a node, one event per slice in the simulator.

Between two slices anything may change: leaders, configurations, logs. A generator therefore looks up what it needs
after each yield instead of keeping it, and changes shared state only between two yields, never across one.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from ottla.purgatory.delayed import Delayed

T = TypeVar("T")

Steps: TypeAlias = Generator["Delayed[Any] | None", Any, T]


def run_to_end(steps: "Steps[T]") -> T:
    """Run ``steps`` in one go and return their result: for callers that do not mind the time, and for tests.

    Raises:
        RuntimeError: a step waits for a `Delayed` that is not complete.
    """
    value: object = None
    try:
        while True:
            wait = steps.send(value)
            if wait is not None and not wait.is_complete:
                raise RuntimeError("the steps wait for an event, and cannot be run in one go")
            value = None if wait is None else wait.value
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
