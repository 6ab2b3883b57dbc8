"""Measurements are made when they are needed, bounded, and forgotten after an hour."""

import pytest

from ottla.security.quotas.measurements import IDLE_MS_MAX, Measurements


def test_each_has_its_own_and_keeps_it() -> None:
    measurements = Measurements[list[int]](list)
    measurements.of("a", 0).append(1)

    assert measurements.of("a", 1) == [1]
    assert measurements.of("b", 1) == []


def test_what_is_idle_for_an_hour_is_forgotten() -> None:
    measurements = Measurements[list[int]](list)
    measurements.of("a", 0).append(1)
    measurements.of("b", 0).append(1)
    measurements.of("a", 1)

    measurements.forget_idle(IDLE_MS_MAX - 1)
    assert len(measurements) == 2
    measurements.forget_idle(IDLE_MS_MAX)
    assert len(measurements) == 1
    assert measurements.of("a", IDLE_MS_MAX) == [1]


def test_at_the_bound_the_one_that_is_idle_longest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.security.quotas.measurements.MEASUREMENTS_MAX", 2)
    measurements = Measurements[list[int]](list)
    for who in ("a", "b", "a", "c"):
        measurements.of(who, 0).append(1)

    assert len(measurements) == 2
    assert measurements.of("a", 0) == [1, 1]
    assert measurements.of("b", 0) == []
