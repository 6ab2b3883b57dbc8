"""`Steps`: work that is done a slice at a time, written as a generator.

Work that may take longer than a millisecond on the loop is a generator function. It yields None where it may be
interrupted, at least once per 200 us of its work; it yields a `Delayed` to wait for it (work off the loop, records that
are not committed yet), and receives its value. Its return value is the result. The caller decides how long it runs:
`network.step_runner` on a node, one event per slice in the simulator.

Between two slices anything may change: leaders, configurations, logs. A generator therefore looks up what it needs
after each yield instead of keeping it, and changes shared state only between two yields, never across one.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from ottla.purgatory.delayed import Delayed

T = TypeVar("T")
U = TypeVar("U")
HashableT = TypeVar("HashableT", bound=Hashable)

Steps: TypeAlias = Generator["Delayed[Any] | None", Any, T]

ITEMS_PER_STEP: Final = 8
"""For lists whose items take up to some 20 us each."""
_MERGED_PER_STEP: Final = 128


def map_in_steps(change: Callable[[T], U], items: Iterable[T], *, per_step: int = ITEMS_PER_STEP) -> Steps[list[U]]:
    """Return the results of ``change`` for each item, in order."""
    changed: list[U] = []
    for item in items:
        changed.append(change(item))
        if len(changed) % per_step == 0:
            yield None
    return changed


def unique_in_steps(items: Iterable[HashableT], *, per_step: int = 256) -> Steps[dict[HashableT, None]]:
    """Return each item once, in the order of their first places, as the keys of a dictionary."""
    unique: dict[HashableT, None] = {}
    for number, item in enumerate(items, 1):
        unique[item] = None
        if number % per_step == 0:
            yield None
    return unique


def sorted_in_steps(
    items: Sequence[T], *, key: Callable[[T], Any] | None = None, per_step: int = 512
) -> Steps[list[T]]:
    """Return the sorted items, merged from sorted runs: sorting 50,000 strings at once takes 20 ms.

    The sort is stable. With ``key`` the items are sorted by its results, as `sorted` does.
    """
    runs: list[list[T]] = []
    for start in range(0, len(items), per_step):
        runs.append(sorted(items[start : start + per_step], key=key))  # type: ignore[type-var,arg-type]
        yield None
    if len(runs) <= 1:
        return runs[0] if runs else []
    ordered: list[T] = []
    for item in merge(*runs, key=key):  # type: ignore[arg-type]
        ordered.append(item)
        if len(ordered) % _MERGED_PER_STEP == 0:
            yield None
    return ordered


def clear_in_steps(entries: dict[HashableT, U], per_step: int) -> Steps[None]:
    """Remove all entries: freeing tens of thousands of them at once takes some 10 ms."""
    while entries:
        for _ in range(min(len(entries), per_step)):
            entries.popitem()
        yield None


def values_in_steps(delayed: list[Delayed[T]]) -> Steps[list[T]]:
    """Return all values, in order, when the last one is delivered; ``delayed`` is emptied."""
    values: list[T] = []
    delayed.reverse()
    while delayed:
        each = delayed.pop()
        values.append(each.value if each.is_complete else (yield each))
        if len(delayed) % _MERGED_PER_STEP == 0:
            yield None
    return values


def split_in_steps(
    items: Iterable[T], belongs_first: Callable[[T], bool], *, per_step: int = ITEMS_PER_STEP
) -> Steps[tuple[list[T], list[T]]]:
    """Return the items for which ``belongs_first`` is true, and the others, each in order."""
    first: list[T] = []
    others: list[T] = []
    for number, item in enumerate(items, 1):
        (first if belongs_first(item) else others).append(item)
        if number % per_step == 0:
            yield None
    return first, others


def run_to_end(steps: "Steps[T]") -> T:
    """Run ``steps`` without slices and return their result: for callers that may block, and for tests.

    Raises:
        RuntimeError: a step waits for a `Delayed` that is not complete.
    """
    value: object = None
    try:
        while True:
            wait = steps.send(value)
            if wait is not None and not wait.is_complete:
                raise RuntimeError("the steps wait for an event, and cannot be run without slices")
            value = None if wait is None else wait.value
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield ``items`` in lists of ``size``: the work of a generator of `Steps` between two yields."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
