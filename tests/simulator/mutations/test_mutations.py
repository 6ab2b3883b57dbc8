"""The simulator finds bugs: each mutation breaks one promise on purpose, and is caught within its number of seeds."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load_catalog() -> ModuleType:
    path = Path(__file__).with_name("catalog.py")
    spec = importlib.util.spec_from_file_location("simulator_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


catalog = _load_catalog()


BY_SEEDS = [mutation for mutation in catalog.MUTATIONS if mutation.seeds_max is not None]


@pytest.mark.parametrize("mutation", BY_SEEDS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_caught(mutation: object) -> None:
    assert catalog.hunt(mutation) is not None


def test_there_are_enough_mutations() -> None:
    assert len(catalog.MUTATIONS) >= 12
