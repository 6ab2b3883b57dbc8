"""The machine's clocks as `ports.Clock`."""

import time

_NANOSECONDS_PER_MS = 1_000_000


class SystemClock:
    """`time.monotonic_ns` and `time.time_ns`, in milliseconds."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // _NANOSECONDS_PER_MS

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        return time.time_ns() // _NANOSECONDS_PER_MS
