"""The cluster chart takes every field of its kinds, so that no field needs a manifest next to the chart."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla_operator.model import schema

VALUES = Path(__file__).parents[2] / "charts" / "ottla-cluster" / "values.schema.json"


def fields(kind: str) -> set[str]:
    definition: dict[str, Any] = schema.definition(kind)
    (version,) = definition["spec"]["versions"]
    return set(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


@pytest.mark.parametrize("kind", ["Topic", "User"])
def test_every_field_of_a_member_is_a_value(kind: str) -> None:
    values = json.loads(VALUES.read_text())["properties"][f"{kind.lower()}s"]["additionalProperties"]["properties"]

    assert set(values) == fields(kind) - {"clusterRef"}


def test_every_field_of_a_cluster_is_a_value() -> None:
    values = json.loads(VALUES.read_text())["properties"]["cluster"]["properties"]

    assert fields("Cluster") <= set(values) - {"name"}
