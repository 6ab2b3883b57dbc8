"""A clock that moves only when told, as `ports.Clock`; every node may see it skewed."""


class SimulatedClock:
    """``monotonic`` starts at 0; ``wall`` may be stepped either way without it."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic_ms = 0
        self._wall_offset_ms = wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def wall_ms(self) -> int:
        return self._monotonic_ms + self._wall_offset_ms

    def advance(self, milliseconds: int) -> None:
        assert milliseconds >= 0, "the monotonic clock never goes back"
        self._monotonic_ms += milliseconds

    def step_wall(self, milliseconds: int) -> None:
        """Step the wall clock, as NTP or an operator would."""
        self._wall_offset_ms += milliseconds
