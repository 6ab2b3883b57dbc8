"""The order in which Java iterates over a `HashMap` or `HashSet`, which breaks ties in Kafka's assignors.

Kafka's assignors give out partitions while they iterate over hash tables. The hashes of member ids, topic ids and
partitions are specified, so the order is the same on every JVM: by bucket, and in a bucket by insertion. A bucket of
eight or more entries is a tree in Java, and its order is not reproduced; real ids never fill one.

Source: java.util.HashMap (OpenJDK 17), String.hashCode, org.apache.kafka.common.Uuid.hashCode.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ottla.purgatory.steps import Steps, sorted_in_steps
from ottla.types import Uuid

T = TypeVar("T")

_DEFAULT_BUCKETS: Final = 16
_HASHES_PER_STEP: Final = 64
"""The hash of a member id takes 3 us."""
_SORTED_PER_STEP: Final = 2048
"""Integers, which are sorted in a quarter of a millisecond."""


def string_hash(text: str) -> int:
    """Return ``String.hashCode`` of ``text`` as an unsigned 32-bit integer."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = 31 * value + unit & 0xFFFFFFFF
    return value


def uuid_hash(value: Uuid) -> int:
    """Return ``Uuid.hashCode`` of ``value`` as an unsigned 32-bit integer."""
    first, second, third, fourth = struct.unpack(">4I", value)
    return int(first ^ second ^ third ^ fourth)


def buckets_of_grown(size: int) -> int:
    """Return the number of buckets of a table that ``size`` entries were put into one by one: 16 and more."""
    buckets = _DEFAULT_BUCKETS
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def buckets_of_copy(size: int) -> int:
    """Return the number of buckets of ``new HashSet<>(collection)`` with ``size`` entries: 16 and more."""
    buckets = _DEFAULT_BUCKETS
    while buckets < size * 4 // 3 + 1:
        buckets *= 2
    return buckets


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
        keys.append(((code ^ code >> 16) & buckets - 1) * size + number)
        if number % _HASHES_PER_STEP == 0:
            yield None
    return [items[key % size] for key in (yield from sorted_in_steps(keys, per_step=_SORTED_PER_STEP))]


def partitions_in_hash_order(partitions: frozenset[int]) -> Steps[list[int]]:
    """Return ``partitions`` in the order of a ``HashSet<Integer>`` that was created from an ascending list."""
    ascending = yield from sorted_in_steps(list(partitions))
    return (yield from in_hash_order(ascending, int, buckets_of_copy(len(ascending))))
