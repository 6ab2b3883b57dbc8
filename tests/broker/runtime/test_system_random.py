"""Random numbers are uniform over the requested range, including both ends."""

import pytest

from ottla.runtime.system_random import SystemRandom


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 5, 8])
def test_every_number_below_the_stop_is_drawn_and_no_other(stop: int) -> None:
    assert {SystemRandom().randrange(stop) for _ in range(100 * stop)} == set(range(stop))


@pytest.mark.parametrize("stop", [0, -1, -4])
def test_empty_range_is_an_error(stop: int) -> None:
    with pytest.raises(ValueError, match=r"empty range|non-negative"):
        SystemRandom().randrange(stop)
