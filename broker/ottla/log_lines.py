"""A rate limit for log lines about clients."""

from ottla.ports import Clock


class LineLimit:
    """At most one line in each ``interval_ms``, so that a flood of events is not a flood of lines.

    The caller counts the events, and logs their number with the next line.
    """

    __slots__ = ("_clock", "_interval_ms", "_silent_until_ms")

    def __init__(self, clock: Clock, *, interval_ms: int = 1_000) -> None:
        self._clock = clock
        self._interval_ms = interval_ms
        self._silent_until_ms = 0

    def take_permit(self) -> bool:
        """Return whether a line may be logged now; if so, the next one is allowed only after the interval."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._silent_until_ms:
            return False
        self._silent_until_ms = now_ms + self._interval_ms
        return True
