"""What clients push becomes counters and gauges, whose number and labels are bounded."""

import math

import pytest

from ottla.client_metrics.otlp import Point
from ottla.client_metrics.pushed import (
    LABEL_CHARACTERS_MAX,
    SERIES_PER_CLIENT_MAX,
    ClientLabels,
    PushedSeries,
    SeriesKey,
    describe_push,
    label,
)
from ottla.types import Uuid

PLENTY = 10_000
LABELS = ClientLabels("id", "app", "java", "4", "127.0.0.1", "User:alice")


def gauge(name: str, value: float, *attributes: tuple[str, str]) -> Point:
    return Point(name, attributes, value, is_counter=False, is_delta=False)


def delta(name: str, value: float) -> Point:
    return Point(name, (), value, is_counter=True, is_delta=True)


@pytest.fixture
def pushed() -> PushedSeries:
    return PushedSeries(LABELS)


def test_deltas_of_a_counter_are_added_up(pushed: PushedSeries) -> None:
    assert pushed.apply(delta("bytes", 3), series_left=PLENTY) == 1
    assert pushed.apply(delta("bytes", 4), series_left=PLENTY) == 0

    assert pushed.counters == {SeriesKey("bytes", ""): 7}


def test_cumulative_values_replace_the_former_one(pushed: PushedSeries) -> None:
    for value in (3, 4):
        pushed.apply(Point("bytes", (), value, is_counter=True, is_delta=False), series_left=PLENTY)
        pushed.apply(gauge("rate", value, ("node", "1"), ("topic", "t")), series_left=PLENTY)

    assert pushed.counters == {SeriesKey("bytes", ""): 4}
    assert pushed.gauges == {SeriesKey("rate", "node=1,topic=t"): 4}


@pytest.mark.parametrize("step", [-1.0, math.nan, math.inf])
def test_step_that_a_counter_cannot_take_is_dropped(pushed: PushedSeries, step: float) -> None:
    pushed.apply(delta("bytes", 1), series_left=PLENTY)

    assert pushed.apply(delta("bytes", step), series_left=PLENTY) == -1
    assert pushed.counters == {SeriesKey("bytes", ""): 1}


def test_new_series_are_dropped_at_the_limits_and_known_ones_continue(pushed: PushedSeries) -> None:
    taken = [pushed.apply(gauge(f"m{number}", 1), series_left=PLENTY) for number in range(SERIES_PER_CLIENT_MAX + 1)]

    assert (taken[-2], taken[-1]) == (1, -1)
    assert pushed.apply(gauge("m0", 2), series_left=0) == 0
    assert PushedSeries(LABELS).apply(gauge("m", 1), series_left=0) == -1


def test_labels_are_printable_and_truncated() -> None:
    assert label("a\nb\u202e") == "a\\nb\\u202e"
    assert len(label("\n" * 1_000)) == LABEL_CHARACTERS_MAX


def test_log_line_quotes_the_client_and_is_bounded() -> None:
    forged = "x\n2026 ERROR forged"
    labels = LABELS._replace(client_id=forged)
    points = [gauge(forged, 1, (forged, forged * 100))] * 10_000

    line = describe_push(Uuid(bytes(16)), labels, points)

    assert "\n" not in line
    assert "'x\\n2026 ERROR forged'" in line
    assert "and 9950 more" in line
    assert len(line) < 20_000
