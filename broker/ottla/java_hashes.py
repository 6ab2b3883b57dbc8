"""Hashes of Java, and the buckets of its hash tables: what Kafka derives from them must be the same here.

The hash of a key selects the partition of an internal topic. Kafka's assignors, and the text behind the id of a
subscription to client metrics, have the order in which a `HashMap` or `HashSet` iterates: by bucket, and in a bucket by
insertion. A bucket of eight or more entries is a tree in Java, and its order is not reproduced; real ids never fill
one.

The tables are those of JDK 17 and 18. Since JDK 19 `new HashSet<>(collection)` has half as many buckets for 12, 24, 48,
96, ... entries, so that the order of so many differs; the order breaks ties only.

Source: java.util.HashMap, java.util.HashSet (OpenJDK 17), String.hashCode, org.apache.kafka.common.Uuid.hashCode.
"""

import struct
from typing import Final

from ottla.types import Uuid

_DEFAULT_BUCKETS: Final = 16


def string_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned 32-bit integer: over UTF-16 code units, astral characters as two."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = 31 * value + unit & 0xFFFFFFFF
    return value


def uuid_hash(value: Uuid) -> int:
    """Return ``Uuid.hashCode`` as an unsigned 32-bit integer."""
    first, second, third, fourth = struct.unpack(">4I", value)
    return int(first ^ second ^ third ^ fourth)


def buckets_of_grown(size: int) -> int:
    """Return the number of buckets of a table that ``size`` entries were put into one by one: 16 and more."""
    buckets = _DEFAULT_BUCKETS
    while size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def buckets_of_sized(capacity: int, size: int) -> int:
    """Return the number of buckets of ``new HashMap<>(capacity)`` with ``size`` entries that were put one by one."""
    buckets = 1
    while buckets < capacity or size > buckets * 3 // 4:
        buckets *= 2
    return buckets


def buckets_of_copy(size: int) -> int:
    """Return the number of buckets of ``new HashSet<>(collection)`` with ``size`` entries: 16 and more."""
    buckets = _DEFAULT_BUCKETS
    while buckets < size * 4 // 3 + 1:
        buckets *= 2
    return buckets


def bucket_of(code: int, buckets: int) -> int:
    """Return the bucket of an entry with the unsigned hash ``code``; ``buckets`` is a power of two."""
    return (code ^ code >> 16) & buckets - 1
