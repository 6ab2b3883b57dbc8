"""The last offset of each key in the dirty section of a log, in a table of fixed size.

The second pass of a cleaning checks of each record whether it is the last one of its key. In the dirty section that is
known when a later one is added: the map marks the earlier one, so that its key is looked up only once.

An entry takes 24 bytes, as in Kafka: the 128-bit hash of the key and the offset. Keys are not kept: two keys with one
hash would be one key, so the hash is one for which no client can construct such keys (BLAKE2b; Kafka's is MD5).

Source: SkimpyOffsetMap of Kafka.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from math import isqrt
from struct import Struct
from typing import Final

from ottla.types import Offset

ENTRY_SIZE_BYTES: Final = 24
NO_OFFSET: Final = -1
_HASH_SIZE_BYTES: Final = 16
_HALVES = Struct(">QQ")
_SLOTS_MIN: Final = 3
MARKS_MAX: Final = 32 * 1024 * 1024
"""Offsets above so many are looked up by their keys: the marks are in addition to log.cleaner.dedupe.buffer.size."""


def slots_for(buffer_bytes: int, load_factor: float, record_count_max: int) -> int:
    """Return how many slots a table gets: those that fit into the buffer, but no more than the records need."""
    needed = int(record_count_max / load_factor) + 1
    return max(_SLOTS_MIN, min(buffer_bytes // ENTRY_SIZE_BYTES, needed))


class OffsetMap:
    """Open addressing with double hashing; entries are never removed.

    Args of the constructor:
        slots: size of the table; it is lowered to a prime number, so that each step visits every slot.
        load_factor: the share of the slots that may be used.
        first_offset: of the dirty section.
        offset_count: of the dirty section.

    Attributes:
        latest_offset: everything below and at this offset has been added; -1 for nothing.
    """

    def __init__(
        self, slots: int, load_factor: float = 0.9, *, first_offset: Offset = 0, offset_count: int = 0
    ) -> None:
        self.slots = _prime_up_to(max(slots, _SLOTS_MIN))
        self.capacity = max(1, min(int(self.slots * load_factor), self.slots - 1))
        self.latest_offset: Offset = NO_OFFSET
        self._count = 0
        self._hashes = bytearray(self.slots * _HASH_SIZE_BYTES)
        # Each offset plus one: 0 is an empty slot.
        self._offsets = array("q", bytes(self.slots * 8))
        self._first_offset = first_offset
        self._marks = bytearray(min(offset_count, MARKS_MAX))

    def __len__(self) -> int:
        return self._count

    @property
    def utilization(self) -> float:
        """Return the share of the slots that are used."""
        return self._count / self.slots

    def put_all(self, keys: Sequence[bytes], key_offsets: Sequence[Offset]) -> bool:
        """Set the last offset of each key, in order; return False when the map is full before the last one."""
        hashes, offsets, capacity = self._hashes, self._offsets, self.capacity
        marks, mark_count, first_offset = self._marks, len(self._marks), self._first_offset
        for offset, (slot, digest) in zip(key_offsets, self._find_all(keys), strict=True):
            if self._count >= capacity:
                return False
            previous = offsets[slot]
            if not previous:
                hashes[slot * _HASH_SIZE_BYTES : (slot + 1) * _HASH_SIZE_BYTES] = digest
                self._count += 1
            elif previous - 1 - first_offset < mark_count:
                marks[previous - 1 - first_offset] = 1
            offsets[slot] = offset + 1
            self.latest_offset = offset
        return True

    def get_all(self, keys: Iterable[bytes]) -> list[Offset]:
        """Return the last offset of each key; -1 for one that was not added."""
        offsets = self._offsets
        return [offsets[slot] - 1 for slot, _ in self._find_all(keys)]

    def marks(self, base_offset: Offset, last_offset: Offset) -> bytearray | None:
        """Return a byte for each offset: 1 if a later record of its key was added, else 0; None if it is not known."""
        first = base_offset - self._first_offset
        last = last_offset - self._first_offset
        return self._marks[first : last + 1] if first >= 0 and last < len(self._marks) else None

    def advance(self, offset: Offset) -> None:
        """Record that everything up to ``offset`` has been added."""
        self.latest_offset = max(self.latest_offset, offset)

    def _find_all(self, keys: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield, for each key, the slot that has its hash, or the empty slot where it belongs; and the hash.

        A loop in one frame: calls for each key cost as much as the search.
        """
        slots, offsets, hashes, halves = self.slots, self._offsets, self._hashes, _HALVES.unpack
        for key in keys:
            digest = blake2b(key, digest_size=_HASH_SIZE_BYTES).digest()
            first, second = halves(digest)
            slot: int = first % slots
            while hashes[slot * _HASH_SIZE_BYTES : (slot + 1) * _HASH_SIZE_BYTES] != digest and offsets[slot]:
                slot = (slot + 1 + second % (slots - 1)) % slots
            yield slot, digest


def _prime_up_to(number: int) -> int:
    while any(number % divisor == 0 for divisor in range(2, isqrt(number) + 1)):
        number -= 1
    return number
