"""Limits the bytes per second that all cleanings together read and write.

Source: Throttler of Kafka, which sleeps in the cleaner's thread; here the loop delays the next slice.
"""


class Throttle:
    """See the module."""

    def __init__(self) -> None:
        self._free_ms = 0.0

    def use(self, size_bytes: int, bytes_per_second_max: float, now_ms: int) -> int:
        """Count bytes; return the time, by the clock of ``now_ms``, before which no more may be used."""
        self._free_ms = max(self._free_ms, now_ms) + size_bytes * 1000 / max(bytes_per_second_max, 1.0)
        return int(self._free_ms)
