"""The rate limit for log lines."""

import pytest

from ottla.log_lines import LineLimit
from ottla.simulator.world.clock import SimulatedClock


@pytest.mark.parametrize("interval_ms", [1_000, 60_000])
def test_one_line_may_be_written_in_each_interval(interval_ms: int) -> None:
    clock = SimulatedClock()
    limit = LineLimit(clock, interval_ms=interval_ms)

    assert [limit.take_permit(), limit.take_permit()] == [True, False]
    clock.advance(interval_ms - 1)
    assert not limit.take_permit()
    clock.advance(1)
    assert [limit.take_permit(), limit.take_permit()] == [True, False]


def test_suppressed_lines_do_not_delay_the_next_one() -> None:
    clock = SimulatedClock()
    limit = LineLimit(clock)
    limit.take_permit()
    clock.advance(999)
    limit.take_permit()
    clock.advance(1)

    assert limit.take_permit()
