"""Measurements are created when they are needed, bounded, and evicted after an hour."""

import pytest

from ottla.security.quotas.measurements import IDLE_MS_MAX, Measurements


def test_each_sharer_keeps_its_own_measurement() -> None:
    measurements = Measurements[list[int]](list)
    measurements.of("a", 0).append(1)

    assert measurements.of("a", 1) == [1]
    assert measurements.of("b", 1) == []


def test_measurement_idle_for_an_hour_is_evicted() -> None:
    measurements = Measurements[list[int]](list)
    measurements.of("a", 0).append(1)
    measurements.of("b", 0).append(1)
    measurements.of("a", 1)

    measurements.evict_idle(IDLE_MS_MAX - 1)
    assert len(measurements) == 2
    measurements.evict_idle(IDLE_MS_MAX)
    assert len(measurements) == 1
    assert measurements.of("a", IDLE_MS_MAX) == [1]


def test_at_the_bound_the_longest_idle_measurement_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.security.quotas.measurements.MEASUREMENTS_MAX", 2)
    measurements = Measurements[list[int]](list)
    for who in ("a", "b", "a", "c"):
        measurements.of(who, 0).append(1)

    assert len(measurements) == 2
    assert measurements.of("a", 0) == [1, 1]
    assert measurements.of("b", 0) == []
