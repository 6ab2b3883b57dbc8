"""Clocks that move only in `advance`, as `ports.Clock`; every node may have its own, skewed and drifting."""

_MILLION = 1_000_000


class SimulatedClock:
    """``monotonic`` starts at 0 and is ``now_ms``; ``wall`` may be stepped either way without it."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000) -> None:
        self.now_ms = 0
        self._wall_offset_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * _MILLION

    def wall_ms(self) -> int:
        return self.now_ms + self._wall_offset_ms

    def true_ms(self, monotonic_ms: int) -> int:
        """Return ``monotonic_ms``: this clock is the true time; see `HostClock`."""
        return monotonic_ms

    def advance(self, milliseconds: int) -> None:
        assert milliseconds >= 0, "the monotonic clock never goes back"
        self.now_ms += milliseconds

    def step_wall(self, milliseconds: int) -> None:
        """Step the wall clock, as NTP or an operator would."""
        self._wall_offset_ms += milliseconds


class HostClock:
    """One host's view of the true time: its clock started at any time, runs a little fast or slow, and may be wrong.

    Args of the constructor:
        started_ms: reading of the monotonic clock when the simulation started.
        drift_ppm: by how many millionths it runs fast; negative for slow.
        skew_ms: how far the wall clock is ahead; may be changed at any time.
    """

    def __init__(self, truth: SimulatedClock, *, started_ms: int = 0, drift_ppm: int = 0, skew_ms: int = 0) -> None:
        self._truth = truth
        self._started_ms = started_ms
        self._rate = _MILLION + drift_ppm
        self.skew_ms = skew_ms

    def monotonic_ms(self) -> int:
        return self._started_ms + self._truth.now_ms * self._rate // _MILLION

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * _MILLION

    def wall_ms(self) -> int:
        return self._truth.wall_ms() + self.skew_ms

    def true_ms(self, monotonic_ms: int) -> int:
        """Return the first true millisecond in which this clock reads ``monotonic_ms`` or more."""
        return -(-(monotonic_ms - self._started_ms) * _MILLION // self._rate)
