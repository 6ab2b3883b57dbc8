"""`Measurements`: what each that has a limit has used lately; a bounded number, and none that is idle for an hour.

Clients invent client ids, and behind a limit for the default client id each has a measurement of its own. At
`MEASUREMENTS_MAX` of one kind the one that has been idle longest is forgotten for a new one. Nobody gains by that: who
can bring up so many ids has as many limits anyway.

Source: ClientQuotaManager.getOrCreateQuotaSensors and its inactive sensor expiration, one hour, of Apache Kafka 4.3.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

MEASUREMENTS_MAX: Final = 10_000
"""Of one kind; each takes about 2 KiB when its window is full."""
IDLE_MS_MAX: Final = 3_600_000

MeasureT = TypeVar("MeasureT")


class Measurements(Generic[MeasureT]):
    """Those of one kind, by who shares them; the one that was used last is the last."""

    __slots__ = ("_by_who", "_new")

    def __init__(self, new: Callable[[], MeasureT]) -> None:
        self._new = new
        self._by_who: dict[Hashable, tuple[MeasureT, int]] = {}

    def __len__(self) -> int:
        return len(self._by_who)

    def of(self, who: Hashable, now_ms: int) -> MeasureT:
        """Return the measurement of ``who``, a new one for the first time."""
        found = self._by_who.pop(who, None)
        if found is None:
            if len(self._by_who) >= MEASUREMENTS_MAX:
                del self._by_who[next(iter(self._by_who))]
            measure = self._new()
        else:
            measure = found[0]
        self._by_who[who] = measure, now_ms
        return measure

    def forget_idle(self, now_ms: int) -> None:
        """Forget those that nobody has used for an hour."""
        while self._by_who:
            who, (_, used_ms) = next(iter(self._by_who.items()))
            if now_ms - used_ms < IDLE_MS_MAX:
                return
            del self._by_who[who]
