"""Merging delivery states: the same as a model that keeps the state of each offset."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.purgatory.steps import run_to_end
from ottla.share_state.batches import Batches, combine, combine_in_steps
from ottla.share_state.persister import StateBatch

OFFSET_MAX = 40


def _batch(offset_max: int) -> st.SearchStrategy[StateBatch]:
    return st.builds(
        lambda first, size, state, count: StateBatch(first, first + size, state, count),
        st.integers(0, offset_max),
        st.integers(-2, 12),
        st.sampled_from((0, 2, 4)),
        st.integers(1, 3),
    )


_batches = st.lists(_batch(OFFSET_MAX), max_size=12)
_start_offsets = st.integers(-1, OFFSET_MAX + 10)


def by_offset(batches: list[StateBatch] | Batches, start_offset: int) -> dict[int, tuple[int, int]]:
    """Return delivery count and state of each offset."""
    states: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            state = (batch.delivery_count, batch.delivery_state)
            states[offset] = max(states.get(offset, state), state)
    return states


@given(writes=st.lists(st.tuples(_batches, _start_offsets), max_size=6))
def test_each_offset_has_the_state_that_counts(writes: list[tuple[list[StateBatch], int]]) -> None:
    stored: Batches = ()
    model: dict[int, tuple[int, int]] = {}
    for written, start_offset in writes:
        model = {offset: state for offset, state in model.items() if offset >= start_offset}
        for offset, state in by_offset(written, start_offset).items():
            model[offset] = max(model.get(offset, state), state)

        stored = combine(stored, written, start_offset)

        assert by_offset(stored, -1) == model


@given(stored=_batches, written=_batches, start_offset=_start_offsets)
def test_batches_are_ordered_disjoint_and_joined(
    stored: list[StateBatch], written: list[StateBatch], start_offset: int
) -> None:
    combined = combine(combine((), stored, -1), written, start_offset)

    for batch, following in pairwise(combined):
        assert batch.first_offset <= batch.last_offset < following.first_offset
        assert batch.last_offset + 1 < following.first_offset or batch[2:] != following[2:]


@given(written=st.lists(_batch(50 * OFFSET_MAX), max_size=150), is_in_order=st.booleans())
def test_steps_combine_as_one_call_does(written: list[StateBatch], is_in_order: bool) -> None:
    if is_in_order:
        written.sort()

    assert run_to_end(combine_in_steps(written)) == combine((), written, -1)


@pytest.mark.parametrize(
    ("stored", "written", "start_offset", "expected"),
    [
        pytest.param([(0, 9, 0, 1)], [(5, 9, 2, 1)], -1, [(0, 4, 0, 1), (5, 9, 2, 1)], id="greater-state-counts"),
        pytest.param([(0, 9, 2, 1)], [(5, 9, 0, 2)], -1, [(0, 4, 2, 1), (5, 9, 0, 2)], id="greater-count-comes-first"),
        pytest.param([(0, 9, 2, 2)], [(5, 14, 2, 1)], -1, [(0, 9, 2, 2), (10, 14, 2, 1)], id="smaller-count-is-cut"),
        pytest.param([(0, 4, 2, 1)], [(5, 9, 2, 1)], -1, [(0, 9, 2, 1)], id="equal-ones-are-joined"),
        pytest.param([(0, 4, 2, 1)], [(6, 9, 2, 1)], -1, [(0, 4, 2, 1), (6, 9, 2, 1)], id="a-gap-stays"),
        pytest.param([(0, 9, 0, 1), (20, 29, 0, 1)], [], 25, [(25, 29, 0, 1)], id="start-offset-cuts-what-is-stored"),
        pytest.param([], [(0, 9, 0, 1)], 10, [], id="nothing-is-left-before-the-start"),
        pytest.param([], [(9, 0, 0, 1)], -1, [], id="a-batch-without-offsets-is-ignored"),
    ],
)
def test_edges(
    stored: list[tuple[int, int, int, int]],
    written: list[tuple[int, int, int, int]],
    start_offset: int,
    expected: list[tuple[int, int, int, int]],
) -> None:
    assert combine(tuple(StateBatch(*it) for it in stored), [StateBatch(*it) for it in written], start_offset) == tuple(
        StateBatch(*it) for it in expected
    )
