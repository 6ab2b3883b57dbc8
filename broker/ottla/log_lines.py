"""Lines of the node's own log about what clients do: at most so many in an interval."""

from ottla.ports import Clock


class LineLimit:
    """At most one line in each ``interval_ms``, so that a flood of events is not a flood of lines.

    Whoever writes the line counts the events, and says in it how many there were.
    """

    __slots__ = ("_clock", "_interval_ms", "_silent_until_ms")

    def __init__(self, clock: Clock, *, interval_ms: int = 1_000) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._silent_until_ms = 0

    def take(self) -> bool:
        """Return whether a line may be written now; if so, the next one only after the interval."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._silent_until_ms:
            return False
        self._silent_until_ms = now_ms + self._interval_ms
        return True
