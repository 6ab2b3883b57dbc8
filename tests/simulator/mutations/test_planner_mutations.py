"""The runs of the operator find bugs of the planner: each mutation is caught."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def _load_catalog() -> ModuleType:
    path = Path(__file__).with_name("planner_catalog.py")
    spec = importlib.util.spec_from_file_location("planner_mutations", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


catalog = _load_catalog()


@pytest.mark.parametrize("mutation", catalog.MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_caught(mutation: object) -> None:
    assert catalog.hunt(mutation) is not None


def test_there_are_enough_mutations() -> None:
    assert len(catalog.MUTATIONS) >= 8
