"""Items in the order in which Java iterates over a `HashMap` or `HashSet`.

Kafka's assignors give out partitions while they iterate over hash tables, which breaks ties, and the id of a
subscription to client metrics depends on the order of its metrics. The hashes of strings, ids and partitions are
specified, and the order is that of a JVM of JDK 17 or 18 (`ottla.java_hashes`).
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ottla.java_hashes import bucket_of, buckets_of_copy
from ottla.purgatory.steps import Steps, sorted_in_steps

T = TypeVar("T")

_HASHES_PER_STEP: Final = 64
"""The hash of a member id or the name of a metric takes 3 us."""
_SORTED_PER_STEP: Final = 2048
"""Integers, which are sorted in a quarter of a millisecond."""


def in_hash_order(items: Sequence[T], hash_of: Callable[[T], int], buckets: int) -> Steps[list[T]]:
    """Return ``items`` as a Java hash table with ``buckets`` buckets iterates over them, in slices.

    Args:
        items: in the order of their insertion.
        hash_of: returns the ``hashCode`` of an item, unsigned.
        buckets: a power of two.
    """
    size = len(items)
    keys: list[int] = []
    for number, item in enumerate(items):
        code = hash_of(item)
        # One integer holds the bucket and the position: tuples take twice as long to sort.
        keys.append(bucket_of(code, buckets) * size + number)
        if number % _HASHES_PER_STEP == 0:
            yield None
    return [items[key % size] for key in (yield from sorted_in_steps(keys, per_step=_SORTED_PER_STEP))]


def partitions_in_hash_order(partitions: frozenset[int]) -> Steps[list[int]]:
    """Return ``partitions`` in the order of a ``HashSet<Integer>`` that was created from an ascending list."""
    ascending = yield from sorted_in_steps(list(partitions))
    return (yield from in_hash_order(ascending, int, buckets_of_copy(len(ascending))))
