"""`WindowedRate`: a rate over a window of samples, for quotas on bytes and on time.

A sample contains the values of one ``window_ms`` from its start, and counts until ``window_count`` times that has
passed since its last value. There are two definitions of the elapsed time: `simple_elapsed_ms` is at least one
sample's length, so that an initial burst counts fully; `elapsed_ms` assumes that all samples but one have passed, so
that it counts little.

Source: SampledStat, Rate and SimpleRate of Apache Kafka 4.3.
"""

from collections import deque
from typing import Final

WAIT_MS_MAX: Final = 2**31 - 1


class WindowedRate:
    """See the module."""

    __slots__ = ("_samples", "_total", "_window_count", "_window_ms")

    def __init__(self, *, window_count: int, window_ms: int) -> None:
        self._window_count = window_count
        self._window_ms = window_ms
        self._samples: deque[tuple[int, int, float]] = deque()  # start, last event, sum
        self._total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value``; a negative one reverts an earlier value."""
        self._drop_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._window_ms:
            start_ms, _, before = self._samples[-1]
            self._samples[-1] = (start_ms, now_ms, before + value)
        else:
            self._samples.append((now_ms, now_ms, value))
        self._total += value

    def total(self, now_ms: int) -> float:
        """Return the sum of the current samples."""
        self._drop_old(now_ms)
        return self._total

    def simple_elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the start of the oldest sample, at least one sample's length (SimpleRate)."""
        self._drop_old(now_ms)
        return max(self._window_ms, now_ms - self._samples[0][0] if self._samples else 0)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the start of the oldest sample; all missing samples but one count as passed (Rate)."""
        self._drop_old(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._window_count - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Return the time until the rate is at most ``limit`` per second; 0 if it is now.

        At most `WAIT_MS_MAX`: responses have an int32 for it.
        """
        elapsed_ms = self.elapsed_ms(now_ms)
        excess = self._total * 1000 - limit * elapsed_ms
        # Half a millisecond more is up, as Java rounds.
        return int(min(excess / limit + 0.5, WAIT_MS_MAX)) if excess > 0 else 0

    def _drop_old(self, now_ms: int) -> None:
        samples = self._samples
        oldest_ms = now_ms - self._window_count * self._window_ms
        while samples and samples[0][1] <= oldest_ms:
            self._total -= samples.popleft()[2]
        if not samples:
            self._total = 0.0
