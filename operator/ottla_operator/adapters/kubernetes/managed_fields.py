"""Fields that other clients set on the operator's objects, by ``metadata.managedFields``.

Server-side apply sets the operator's fields and removes no field of another manager: an added port of a Service stays.
The API server records the fields of each manager by its schema (Kubernetes API concepts, "field management"), so
defaults and allocated values, which no manager sets, need no list here.

A path is the keys of ``fieldsV1``: ``f:<field>``, ``k:<key fields of a list's element>`` and ``v:<value>``.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ottla_operator.adapters.kubernetes.comparison import covers, merged
from ottla_operator.model.document import Document, Json

FIELD_MANAGER = "ottla-operator"

FIELDS_OF_OTHERS: Mapping[str, frozenset[str]] = {
    "Service": frozenset(
        {
            # The API server never returns to one family by itself.
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            # Controllers of load balancers write the address; the ranges narrow access: their removal would open it.
            "spec.loadBalancerIP",
            "spec.loadBalancerSourceRanges",
            # The advertised addresses follow it.
            "spec.ports[].nodePort",
        }
    ),
    # Token controllers, such as those of OpenShift, add Secrets to every account.
    "ServiceAccount": frozenset({"imagePullSecrets", "secrets"}),
    # It can never be unset.
    "ConfigMap": frozenset({"immutable"}),
    # The type is set at creation only.
    "Secret": frozenset({"immutable", "type"}),
}
"""Fields, by kind, that stay as other clients set them; documented in docs/kubernetes.md.

So do all of ``metadata`` but the owner references, and ``status``.
"""

_Path: TypeAlias = tuple[str, ...]
_SELF = "."
"""The field itself, beside its own fields."""


def is_as_written(found: Document, wanted: Document) -> bool:
    """Tell whether ``found`` is ``wanted``, and no other client has added a field to it."""
    return covers(found, wanted) and not has_fields_of_others(found)


def has_fields_of_others(found: Document) -> bool:
    """Tell whether other clients set fields that are the operator's."""
    return bool(_paths_of_others(found))


def repair(found: Document, wanted: Document) -> list[Document]:
    """Return the JSON patch (RFC 6902) after which an apply of ``wanted`` leads to it; empty if an apply alone does.

    It changes no more than sections of the object with fields of others, in one write: without it an element with a
    changed key, and the one that the operator applies, would both be there, and collide by name.
    """
    paths = _paths_of_others(found)
    if not paths:
        return []
    repaired = copy.deepcopy(found)
    for path in paths:
        _remove(repaired, path)
    operations: list[Document] = []
    for section in sorted({_section(path) for path in paths}):
        value = merged(_at(repaired, section), _at(wanted, section))
        operation = {"op": "remove"} if value is None else {"op": "add", "value": value}
        operations.append({**operation, "path": f"/{'/'.join(section)}"})
    # Otherwise a field with a default would belong to the other manager for ever, whatever its value.
    entries = [kept for it in found["metadata"]["managedFields"] if (kept := _without(it, paths))]
    return [*operations, {"op": "add", "path": "/metadata/managedFields", "value": entries}]


def _paths_of_others(document: Document) -> list[_Path]:
    entries = document["metadata"].get("managedFields") or []
    ours: Document = next((it["fieldsV1"] for it in entries if _is_ours(it)), {})
    theirs = [it["fieldsV1"] for it in entries if _is_of_others(it)]
    return sorted({path for fields in theirs for path in _paths(fields, ours, document["kind"])})


def _paths(fields: Document, ours: Document, kind: str, above: _Path = ()) -> Iterator[_Path]:
    """Yield the outermost paths of ``fields`` that are not ``ours``."""
    for name, inner in fields.items():
        path = (*above, name)
        if name == _SELF or _is_free(kind, path):
            continue
        if name not in ours:
            yield path
        else:
            yield from _paths(inner, ours[name], kind, path)


def _is_ours(entry: Document) -> bool:
    return (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply") and "subresource" not in entry


def _is_of_others(entry: Document) -> bool:
    # Of a subresource only the number of replicas is no status, and the operator sets it itself.
    return not _is_ours(entry) and "subresource" not in entry and bool(entry.get("fieldsV1"))


def _is_free(kind: str, path: _Path) -> bool:
    """Tell whether other clients may set the field."""
    if path[0] == "f:metadata":
        return len(path) > 1 and path[1] != "f:ownerReferences"
    field = "".join(f".{name.removeprefix('f:')}" if name.startswith("f:") else "[]" for name in path)[1:]
    return field == "status" or field in FIELDS_OF_OTHERS.get(kind, ())


def _without(entry: Document, paths: list[_Path]) -> Document:
    """Return an entry of ``managedFields`` without ``paths``; empty if it has no other field."""
    if not _is_of_others(entry):
        return entry
    kept = copy.deepcopy(entry)
    for path in paths:
        fields = kept["fieldsV1"]
        for name in path[:-1]:
            fields = fields.get(name, {})
        fields.pop(path[-1], None)
    return kept if kept["fieldsV1"] else {}


def _section(path: _Path) -> _Path:
    """Return the pointer of the part of an object that is written as a whole."""
    names = tuple(name.removeprefix("f:") for name in path)
    return names[:2] if names[0] == "metadata" else names[:1]


def _at(document: Document, section: _Path) -> Json:
    value: Json = document
    for name in section:
        value = value.get(name)
    return value


def _remove(value: Json, path: _Path) -> None:
    """Remove the field or the element at ``path``, in place."""
    name, *rest = path
    if name.startswith("f:"):
        field = name.removeprefix("f:")
        if isinstance(value, dict) and field in value:
            if rest:
                _remove(value[field], tuple(rest))
            else:
                del value[field]
    elif isinstance(value, list):
        for element in [it for it in value if _is_element(it, name)]:
            if rest:
                _remove(element, tuple(rest))
            else:
                value.remove(element)


def _is_element(element: Json, name: str) -> bool:
    """Tell whether a list's element is the one that ``k:`` or ``v:`` names."""
    sort, _, text = name.partition(":")
    named = json.loads(text)
    return covers(element, named) if sort == "k" else bool(element == named)
