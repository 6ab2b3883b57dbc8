"""Every edit of a Kubernetes object: each field is changed and removed, and each other field of its schema added."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api_schemas import Schema, field_schema, resolved, schema_of

Document = dict[str, Any]
Place = tuple[str | int, ...]
_KEPT = ("apiVersion", "kind", "status")
"""Fields that are no content: the API server does not let clients change them, or controllers write them."""
_BASE64 = "YWRkZWQ="
_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")

_SAME_TYPE = {"initContainers": "containers", "startupProbe": "readinessProbe", "livenessProbe": "readinessProbe"}


@dataclass(frozen=True, slots=True)
class Edit:
    """One change; ``field`` is the path, with ``[]`` for an element of a list and ``*`` for a key of a map."""

    field: str
    how: str
    place: Place
    value: Any = None

    def __str__(self) -> str:
        return f"{self.how} {self.field}"

    def change(self, document: Document) -> None:
        """Edit ``document`` in place."""
        target: Any = document
        for step in self.place[:-1]:
            target = target[step]
        last = self.place[-1]
        if self.how == "remove":
            del target[last]
        elif isinstance(target, list) and last == len(target):
            target.append(copy.deepcopy(self.value))
        else:
            target[last] = copy.deepcopy(self.value)


def edits_of(document: Document) -> Iterator[Edit]:
    """Yield every edit of an object as it is stored; fields of equal elements and types are edited once."""
    seen = set()
    for edit in _of_value(schema_of(document["kind"]), document, (), ""):
        named = edit.how, tuple("[]" if isinstance(step, int) else _SAME_TYPE.get(step, step) for step in edit.place)
        if named not in seen:
            seen.add(named)
            yield edit


def _of_value(schema: Schema, value: Any, place: Place, field: str) -> Iterator[Edit]:
    if isinstance(value, dict):
        yield from _of_fields(schema, value, place, field)
    elif isinstance(value, list):
        items = resolved(schema.get("items", {}))
        for index, it in enumerate(value):
            yield Edit(f"{field}[]", "remove", (*place, index))
            yield from _of_value(items, it, (*place, index), f"{field}[]")
        if value:
            yield Edit(f"{field}[]", "add", (*place, len(value)), _other_element(schema, value[-1]))
    else:
        yield Edit(field, "change", place, _BASE64 if schema.get("format") == "byte" else _other(value))


def _of_fields(schema: Schema, value: Document, place: Place, field: str) -> Iterator[Edit]:
    is_map = "properties" not in schema
    for name in sorted(_fields(schema, value, field)):
        there = "*" if is_map else name
        path = f"{field}.{there}".lstrip(".")
        if name not in value:
            yield Edit(path, "add", (*place, name), _sample(field_schema(schema, name)))
            continue
        if field or name != "metadata":
            yield Edit(path, "remove", (*place, name))
        yield from _of_value(field_schema(schema, name), value[name], (*place, name), path)
    if is_map:
        yield Edit(f"{field}.*", "add", (*place, "added"), _sample(field_schema(schema, "added")))


def _fields(schema: Schema, value: Document, field: str) -> set[str]:
    known = {*value, *schema.get("properties", {})}
    if not field:
        return known - {*_KEPT}
    return known & {*_METADATA} if field == "metadata" or field.endswith(".metadata") else known


def _other(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
    return f"{value}x"


def _other_element(schema: Schema, element: Any) -> Any:
    """Return another element of a list than ``element``, with other keys."""
    if not isinstance(element, dict):
        return _other(element)
    keys = {*schema.get("x-kubernetes-list-map-keys", ()), "name"}
    return {name: _other(it) if name in keys and name != "protocol" else it for name, it in element.items()}


def _sample(schema: Schema) -> Any:
    """Return a value of a field."""
    schema = resolved(schema)
    types = schema.get("type") or schema.get("oneOf", [{}])[0].get("type", "string")
    match types if isinstance(types, str) else types[0]:
        case "boolean":
            return True
        case "integer" | "number":
            return 7
        case "array":
            return [_sample(schema["items"])]
        case "object" if "properties" in schema:
            scalars = {name: _sample(it) for name, it in schema["properties"].items() if _is_scalar(it)}
            return scalars or {name: _sample(it) for name, it in list(schema["properties"].items())[:1]}
        case "object":
            return {"added": _sample(field_schema(schema, "added"))}
    return _BASE64 if schema.get("format") == "byte" else "added"


def _is_scalar(schema: Schema) -> bool:
    types = resolved(schema).get("type", "string")
    return (types if isinstance(types, str) else types[0]) not in ("array", "object")
