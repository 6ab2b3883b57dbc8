"""The runs of the operator find bugs of the planner: each mutation is caught."""

import pytest

import planner_catalog
from hunting import hunt


@pytest.mark.parametrize("mutation", planner_catalog.MUTATIONS, ids=lambda mutation: mutation.name)
def test_mutation_is_caught(mutation: object) -> None:
    assert hunt(mutation) is not None


def test_there_are_enough_mutations() -> None:
    assert len(planner_catalog.MUTATIONS) >= 8
