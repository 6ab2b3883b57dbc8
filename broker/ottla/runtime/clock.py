"""The system's clocks as `ports.Clock`."""

from time import monotonic_ns, time_ns

_NANOSECONDS_PER_MS = 1_000_000


class SystemClock:
    """`time.monotonic_ns` and `time.time_ns`, in milliseconds; read several times per request."""

    __slots__ = ()

    def monotonic_ms(self) -> int:
        return monotonic_ns() // _NANOSECONDS_PER_MS

    monotonic_ns = staticmethod(monotonic_ns)
    """The function itself: it is read after each event of a busy loop, where a wrapper's call is measurable."""

    def wall_ms(self) -> int:
        return time_ns() // _NANOSECONDS_PER_MS
