"""A windowed rate: samples, elapsed time and wait time, with Kafka's numbers."""

import pytest

from ottla.metrics.rate import WindowedRate


@pytest.fixture
def rate() -> WindowedRate:
    return WindowedRate(window_count=11, window_ms=1_000)


def test_initially_all_samples_but_one_count_as_passed(rate: WindowedRate) -> None:
    rate.record(1, 500)

    assert rate.elapsed_ms(500) == 10_000
    assert rate.elapsed_ms(1_499) == 10_999, "one that is not full is not counted twice"
    assert rate.elapsed_ms(1_500) == 10_000
    assert rate.simple_elapsed_ms(500) == 1_000


@pytest.mark.parametrize(("value", "wait_ms"), [(10_000, 0), (10_001, 1), (10_500, 500), (900_000, 890_000)])
def test_wait_after_an_excess_lasts_until_the_rate_is_the_limit(rate: WindowedRate, value: int, wait_ms: int) -> None:
    rate.record(value, 0)

    assert rate.wait_ms(1_000, 0) == wait_ms


@pytest.mark.parametrize(("value", "wait_ms"), [(100_003, 0), (100_005, 1)], ids=["down", "up"])
def test_half_a_millisecond_is_rounded_up(rate: WindowedRate, value: int, wait_ms: int) -> None:
    rate.record(value, 0)

    assert rate.wait_ms(10_000, 0) == wait_ms


def test_negative_value_reverts_an_earlier_one(rate: WindowedRate) -> None:
    rate.record(5_000, 0)
    rate.record(-5_000, 1)

    assert rate.total(1) == 0
    assert rate.wait_ms(1, 1) == 0


def test_sample_counts_until_its_last_event_has_left_the_window(rate: WindowedRate) -> None:
    rate.record(1, 0)
    rate.record(2, 999)
    rate.record(4, 1_000)

    assert rate.total(11_998) == 7
    assert rate.total(11_999) == 4
    assert rate.total(12_000) == 0


def test_elapsed_time_of_an_empty_window_is_never_zero() -> None:
    assert WindowedRate(window_count=1, window_ms=1_000).elapsed_ms(7) == 1


@pytest.mark.parametrize("limit", [1e-3, 1e-300], ids=["small", "nearly-nothing"])
def test_wait_fits_an_int32(rate: WindowedRate, limit: float) -> None:
    rate.record(1_000_000, 0)

    assert rate.wait_ms(limit, 0) == 2**31 - 1
