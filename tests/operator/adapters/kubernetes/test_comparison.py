"""Comparison of stored objects with wanted ones: defaults do not matter, added keys of atomic fields do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from api_schemas import KINDS, NEWEST, Schema, field_schema, is_atomic, resolved, schema_of

from ottla_operator.adapters.kubernetes.comparison import ATOMIC_FIELDS, covers, merged

OLDEST = "1.29.0"
"""As stated by the charts."""
GOLDEN = Path(__file__).parents[2] / "model" / "golden"


@pytest.mark.parametrize(
    ("found", "wanted", "is_covered"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1}, True, id="more-fields"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, False, id="missing-field"),
        pytest.param({"a": 1}, {"a": 2}, False, id="other-value"),
        pytest.param({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True, id="more-fields-in-a-list"),
        pytest.param({"a": [1, 2]}, {"a": [1]}, False, id="longer-list"),
        pytest.param({"a": [2, 1]}, {"a": [1, 2]}, False, id="other-order"),
        pytest.param(None, {"a": 1}, False, id="nothing"),
        pytest.param({"a": None}, {"a": []}, False, id="null-for-a-list"),
        pytest.param({"a": 1}, {"a": 1, "b": {}, "c": []}, True, id="missing-empty-field"),
        pytest.param({"a": {"b": 1}}, {"a": []}, False, id="empty-for-something"),
        pytest.param({}, {"a": 0}, False, id="missing-number"),
        pytest.param({"selector": {"a": "1", "b": "2"}}, {"selector": {"a": "1"}}, False, id="key-added-to-a-selector"),
        pytest.param(
            {"podSelector": {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b"}]}},
            {"podSelector": {"matchLabels": {"a": "1"}}},
            False,
            id="expression-added-to-a-selector",
        ),
        pytest.param({"selector": {"a": "1", "b": {}}}, {"selector": {"a": "1"}}, True, id="empty-field-of-a-selector"),
        pytest.param({"required": [{"a": 1}]}, {"required": [{"a": 1, "b": []}]}, True, id="empty-in-a-list"),
    ],
)
def test_object_covers_what_is_wanted_of_it(found: Any, wanted: Any, is_covered: bool) -> None:
    assert covers(found, wanted) is is_covered


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        pytest.param({"a": 1, "default": 2}, {"a": 3}, {"a": 3, "default": 2}, id="default-is-kept"),
        pytest.param(
            {"selector": {"a": "1", "b": "2"}}, {"selector": {"a": "1"}}, {"selector": {"a": "1"}}, id="atomic"
        ),
        pytest.param([{"a": 1, "default": 2}], [{"a": 1}], [{"a": 1, "default": 2}], id="same-element"),
        pytest.param([{"a": 1, "default": 2}], [{"a": 3}], [{"a": 3}], id="another-element"),
        pytest.param([{"a": 1}], [], [], id="fewer-elements"),
        pytest.param(None, {"a": 1}, {"a": 1}, id="nothing"),
    ],
)
def test_wanted_fields_are_merged_into_the_object(found: Any, wanted: Any, expected: Any) -> None:
    assert merged(found, wanted) == expected


def maps_of(schema: Schema, release: str, above: frozenset[str] = frozenset()) -> Iterator[tuple[str, bool]]:
    """Yield the name of every field that is a map or an object, and whether it is atomic."""
    for name, it in schema.get("properties", {}).items():
        field = resolved(it, release)
        if "properties" in field or "additionalProperties" in field:
            yield name, field.get("x-kubernetes-map-type") == "atomic"
        for below in (it, it.get("items", {})):
            reference = below.get("$ref", "")
            if reference and reference not in above:
                yield from maps_of(resolved(below, release), release, above | {reference})


@pytest.mark.parametrize("release", [OLDEST, NEWEST])
def test_atomic_fields_are_atomic_in_every_kind(release: str) -> None:
    found = {it for kind in KINDS for it in maps_of(schema_of(kind, release), release)}

    assert {name for name, is_atomic in found if is_atomic} >= ATOMIC_FIELDS
    assert ATOMIC_FIELDS & {name for name, is_atomic in found if not is_atomic} == set()


def atomic_names(schema: Schema, value: Any, name: str) -> Iterator[str]:
    """Yield the names of the atomic maps in an object."""
    if isinstance(value, list):
        for it in value:
            yield from atomic_names(resolved(schema.get("items", {})), it, "")
    elif isinstance(value, dict):
        if name and is_atomic(schema, value):
            yield name
        for field, it in value.items():
            yield from atomic_names(field_schema(schema, field), it, field)


def test_every_atomic_field_that_the_operator_writes_is_known() -> None:
    texts = [(GOLDEN / name).read_text() for name in ("cluster-objects.yaml", "placed-pool.yaml")]
    documents = [it for text in texts for it in yaml.safe_load_all(text)]
    found = {name for it in documents for name in atomic_names(schema_of(it["kind"]), it, "")}

    assert {"fieldRef", "labelSelector", "nodeSelector", "selector"} <= found <= ATOMIC_FIELDS
