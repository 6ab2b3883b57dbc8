"""`WindowedRate`: how much was recorded lately, in a window of samples. Quotas on bytes and on time measure with it.

A sample takes what is recorded within one ``window_ms`` of its begin, and counts until ``window_count`` times that has
passed since the last it took. Two ways to say over what time the sum is: `simple_elapsed_ms` takes at least one
sample's length, so that a burst at the begin counts fully; `elapsed_ms` takes all samples but one as past, so that it
counts little.

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
        self._samples: deque[tuple[int, int, float]] = deque()  # begin, last event, sum
        self._total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """Add ``value``; a negative one takes back what was recorded."""
        self._drop_old(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._window_ms:
            began_ms, _, before = self._samples[-1]
            self._samples[-1] = (began_ms, now_ms, before + value)
        else:
            self._samples.append((now_ms, now_ms, value))
        self._total += value

    def total(self, now_ms: int) -> float:
        """Return the sum of what counts."""
        self._drop_old(now_ms)
        return self._total

    def simple_elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the oldest sample began, one sample's length at least (SimpleRate)."""
        self._drop_old(now_ms)
        return max(self._window_ms, now_ms - self._samples[0][0] if self._samples else 0)

    def elapsed_ms(self, now_ms: int) -> int:
        """Return the time since the oldest sample began; samples that are missing count as past, but one (Rate)."""
        self._drop_old(now_ms)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._window_count - 1 - elapsed_ms // self._window_ms
        return max(1, elapsed_ms + max(0, missing) * self._window_ms)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Return how long to wait until no more than ``limit`` a second were recorded; 0 where that is so now.

        No more than `WAIT_MS_MAX`: answers carry it as an int32.
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
