"""Validation that is loaded before the tests."""

import pytest

from ottla_operator.model import schema
from ottla_operator.planning.export.exported import Destination


@pytest.fixture(scope="session", autouse=True)
def loaded_rules() -> None:
    """Evaluate a rule once: the library raises the recursion limit then, which Hypothesis does not allow in a test."""
    schema.admit(Destination(cluster="demo").manifest("Topic", "flights", {"partitions": 1}))
