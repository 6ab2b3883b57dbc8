"""The simulator finds bugs: each mutation breaks one invariant on purpose, and is caught within its number of seeds."""

import pytest

import catalog
import consumer_group_mutations
import hunting
import offset_mutations
import share_group_mutations
import streams_group_mutations
import transaction_mutations
from hunting import applied, hunt

BY_SEEDS = [mutation for mutation in catalog.MUTATIONS if mutation.seeds_max is not None]


@pytest.mark.parametrize("mutation", BY_SEEDS, ids=lambda mutation: mutation.name)
def test_mutation_is_caught(mutation: object) -> None:
    assert hunt(mutation) is not None


def test_mutation_that_does_not_take_the_arguments_of_what_it_replaces_is_rejected() -> None:
    outdated = catalog.Mutation("outdated", 1, lambda set_attribute: set_attribute(hunting, "applied", lambda: None))

    with pytest.raises(TypeError, match="too many positional arguments"), applied(outdated):
        pass

    assert hunting.applied is applied


def test_there_are_enough_mutations() -> None:
    assert len(catalog.MUTATIONS) >= 12
    assert sum(each.seeds_from == transaction_mutations.SEEDS_FROM for each in catalog.MUTATIONS) >= 10
    of_offsets = [each for each in catalog.MUTATIONS if each.apply.__module__ == offset_mutations.__name__]
    assert len(of_offsets) >= 9
    assert sum(each.apply.__module__ == consumer_group_mutations.__name__ for each in catalog.MUTATIONS) >= 7
    assert sum(each.apply.__module__ == share_group_mutations.__name__ for each in catalog.MUTATIONS) >= 4
    assert sum(each.apply.__module__ == streams_group_mutations.__name__ for each in catalog.MUTATIONS) >= 9
