"""The iteration order of Java's hash tables with strings, and the hashes behind it.

Kafka computes a subscription id from the text of a `HashSet`. Clients compare ids across brokers, so in a cluster with
brokers of both kinds the text must have the same order here. Source: String.hashCode, HashMap.hash, HashMap.resize and
Uuid.hashCode.
"""

from collections.abc import Iterable
from typing import Final

from ottla.types import Uuid

_MASK: Final = 0xFFFFFFFF
_CAPACITY_MIN: Final = 16


def string_hash(text: str) -> int:
    """Return String.hashCode as an unsigned 32-bit number: over UTF-16 code units."""
    result = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        result = (31 * result + int.from_bytes(units[position : position + 2], "big")) & _MASK
    return result


def in_hash_order(texts: Iterable[str]) -> list[str]:
    """Return the distinct strings in the order in which a HashMap lists them that they were added to one by one.

    Buckets of at most seven entries are lists in order of insertion; larger ones, which become trees, do not occur
    with fewer strings than an attacker of hashes would need, and keep that order here.
    """
    distinct = list(dict.fromkeys(texts))
    capacity = _CAPACITY_MIN
    while len(distinct) * 4 > capacity * 3:
        capacity *= 2
    hashes = {text: string_hash(text) for text in distinct}
    return sorted(distinct, key=lambda text: (hashes[text] ^ hashes[text] >> 16) & (capacity - 1))


def uuid_hash(value: Uuid) -> int:
    """Return Uuid.hashCode as an unsigned 32-bit number."""
    words = [int.from_bytes(value[position : position + 4], "big") for position in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]
