"""The newest of many timestamp deltas is the largest, whatever the expected value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.records.newest_delta import find_newest_delta
from ottla.wire.records.varint import encode_varint

BOUNDS = {1: (-64, 63), 2: (-(2**13), 2**13 - 1), 3: (-(2**20), 2**20 - 1), 5: (-(2**34), 2**34 - 1)}


def columns(deltas: list[int]) -> list[bytes]:
    numbers = [encode_varint(delta) for delta in deltas]
    return [bytes(number[at] for number in numbers) for at in range(len(numbers[0]))]


@given(size=st.sampled_from(sorted(BOUNDS)), data=st.data())
def test_newest_delta_is_found_for_any_expected_delta(size: int, data: st.DataObject) -> None:
    low, high = BOUNDS[size]
    of_this_size = st.integers(low, high).filter(lambda delta: len(encode_varint(delta)) == size)
    deltas = data.draw(st.lists(of_this_size, min_size=1, max_size=50))

    for expected in (max(deltas), max(deltas) - 1, max(deltas) + 1, 0, -1, 10**18):
        assert find_newest_delta(columns(deltas), expected) == max(deltas)


@pytest.mark.parametrize("deltas", [[-3, -1, -2], [0, 63, 62], [-64], [64, 8191, 8190], [-65, 64], [-8000, -70]])
def test_signs_and_bounds(deltas: list[int]) -> None:
    assert find_newest_delta(columns(deltas), 0) == max(deltas)
