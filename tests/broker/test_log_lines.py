"""One line an interval."""

import pytest

from ottla.log_lines import LineLimit
from ottla.simulator.world.clock import SimulatedClock


@pytest.mark.parametrize("interval_ms", [1_000, 60_000])
def test_one_line_may_be_written_in_each_interval(interval_ms: int) -> None:
    clock = SimulatedClock()
    limit = LineLimit(clock, interval_ms=interval_ms)

    assert [limit.take(), limit.take()] == [True, False]
    clock.advance(interval_ms - 1)
    assert not limit.take()
    clock.advance(1)
    assert [limit.take(), limit.take()] == [True, False]


def test_what_was_not_written_does_not_put_off_the_next_line() -> None:
    clock = SimulatedClock()
    limit = LineLimit(clock)
    limit.take()
    clock.advance(999)
    limit.take()
    clock.advance(1)

    assert limit.take()
