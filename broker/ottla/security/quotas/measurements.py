"""`Measurements`: recent usage of clients that have a limit; bounded in number, and evicted when idle for an hour.

Clients choose their client ids, and under a limit for the default client id each id has a measurement of its own. At
`MEASUREMENTS_MAX` of one kind a new measurement evicts the one that has been idle longest. Clients gain nothing by
that: a client that can use so many ids has as many limits anyway.

Source: ClientQuotaManager.getOrCreateQuotaSensors and its inactive sensor expiration, one hour, of Apache Kafka 4.3.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

MEASUREMENTS_MAX: Final = 10_000
"""Bound for one kind; a measurement takes about 2 KiB when its window is full."""
IDLE_MS_MAX: Final = 3_600_000

MeasureT = TypeVar("MeasureT")


class Measurements(Generic[MeasureT]):
    """The measurements of one kind, by the clients that share them, in order of last use."""

    __slots__ = ("_by_sharer", "_new")

    def __init__(self, new: Callable[[], MeasureT]) -> None:
        self._new = new
        self._by_sharer: dict[Hashable, tuple[MeasureT, int]] = {}

    def __len__(self) -> int:
        return len(self._by_sharer)

    def of(self, sharer: Hashable, now_ms: int) -> MeasureT:
        """Return the measurement of ``sharer``; create it for the first use."""
        found = self._by_sharer.pop(sharer, None)
        if found is None:
            if len(self._by_sharer) >= MEASUREMENTS_MAX:
                del self._by_sharer[next(iter(self._by_sharer))]
            measure = self._new()
        else:
            measure = found[0]
        self._by_sharer[sharer] = measure, now_ms
        return measure

    def evict_idle(self, now_ms: int) -> None:
        """Evict measurements that have been idle for an hour."""
        while self._by_sharer:
            sharer, (_, used_ms) = next(iter(self._by_sharer.items()))
            if now_ms - used_ms < IDLE_MS_MAX:
                return
            del self._by_sharer[sharer]
