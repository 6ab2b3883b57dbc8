"""Iterations of the event loop, by how long each kept it busy: an event may have waited for so long."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from ottla.metrics.registry import MetricRow, Rows, counter

BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUNDS_NS: Final = tuple(round(each * 1e9) for each in BOUNDS_S)
_SHORTEST_NS: Final = _BOUNDS_NS[0]


@dataclass(slots=True)
class LoopMetrics:
    """Counters only grow."""

    iterations: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """By bound, those that were not shorter than the bound before; the last are longer than all bounds."""
    busy_ns: int = 0
    stalls: int = 0
    """Iterations that `runtime.stall_report` has reported."""
    disconnects: int = 0
    """Iterations in which `runtime.stall_disconnect` has shut down the sockets."""

    def add(self, busy_ns: int) -> None:
        """Count an iteration."""
        self.busy_ns += busy_ns
        self.iterations[0 if busy_ns <= _SHORTEST_NS else bisect_left(_BOUNDS_NS, busy_ns)] += 1

    def copy(self) -> "LoopMetrics":
        """Return a copy of the counters."""
        return LoopMetrics(list(self.iterations), self.busy_ns, self.stalls, self.disconnects)


def _histogram(loop: LoopMetrics) -> Iterator[tuple[tuple[str | None, ...], float]]:
    for bound, count in zip((*BOUNDS_S, "+Inf"), accumulate(loop.iterations), strict=True):
        yield (str(bound),), count


ROWS: Final[Rows[LoopMetrics]] = (
    MetricRow(
        "ottla_loop_iterations_total",
        "counter",
        "Iterations of the event loop that were busy for at most ``le`` seconds; an event may have waited for so long.",
        ("le",),
        _histogram,
    ),
    counter("ottla_loop_busy_seconds_total", "Time that the event loop was busy.", lambda loop: loop.busy_ns / 1e9),
    counter(
        "ottla_loop_stalls_total",
        "Iterations of the event loop that were busy for longer than ottla.loop.stall.ms; the log names what ran.",
        lambda loop: loop.stalls,
    ),
    counter(
        "ottla_loop_stall_disconnects_total",
        "Stalls in which the node has shut down its listeners and connections (ottla.loop.stall.disconnect.ms).",
        lambda loop: loop.disconnects,
    ),
)
