"""One line an interval, and what clients send stays on its line."""

import pytest

from ottla.log_lines import LineLimit, describe_error, quoted
from ottla.simulator.clock import SimulatedClock


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


@pytest.mark.parametrize(
    ("sent", "expected"),
    [("orders", "'orders'"), ("a\nb", "'a\\nb'"), ("\u202e", "'\\u202e'"), ("x" * 100, f"'{'x' * 100}'")],
    ids=["plain", "line-break", "turned-around", "as-long-as-may-be"],
)
def test_what_a_client_sent_is_shown_in_ascii_on_one_line(sent: str, expected: str) -> None:
    assert quoted(sent) == expected


def test_what_is_longer_is_cut() -> None:
    assert quoted("x" * 101) == f"'{'x' * 100}...'"


def test_unexpected_error_is_described_on_one_line_with_its_place() -> None:
    def divide() -> float:
        raise ZeroDivisionError("a\nb" * 1_000)

    with pytest.raises(ZeroDivisionError) as raised:
        divide()

    described = describe_error(raised.value)
    assert described.startswith("ZeroDivisionError: 'a\\nba\\nb")
    assert " at test_log_lines.py:" in described
    assert described.endswith(" in divide")
    assert len(described) < 400
