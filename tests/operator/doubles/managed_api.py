"""An API server in memory with field managers: server-side apply, updates of other clients, JSON patches, defaults.

Merging is that of the OpenAPI schemas (`api_schemas`): a field that no manager owns is a default, and an apply removes
only fields that its own manager had alone. Source: Kubernetes API concepts, "server-side apply".
"""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from api_schemas import Schema, field_schema, is_atomic, resolved, schema_of
from document_copies import copy_document
from fake_api import FakeApi

from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey

Document = dict[str, Any]
Path = tuple[str, ...]
OURS = ("ottla-operator", "Apply")
USER = ("kubectl-edit", "Update")
_CREATOR = _PATCHER = ("ottla-operator", "Update")
_UNMANAGED = ("apiVersion", "kind", "status")
_UNMANAGED_METADATA = ("name", "namespace", "uid", "resourceVersion", "managedFields", "generation")
_IMMUTABLE = ("podManagementPolicy", "selector", "serviceName", "volumeClaimTemplates")


class ManagedApi(FakeApi):
    """`FakeApi` whose objects have ``metadata.managedFields``."""

    def __init__(self) -> None:
        super().__init__()
        self._allocated = itertools.count(30_000)

    async def create(self, document: Document) -> Document:
        await super().create(document)
        return self._store(document, {"metadata": {}}, {_CREATOR: set(values_of(document))})

    async def apply(self, document: Document) -> Document:
        live = self.stored.get(self._key(document), {"metadata": {}})
        self._check_version(live, document["metadata"].get("resourceVersion"))
        self.writes.append(f"apply {document['kind']}/{document['metadata']['name']}")
        managers, applied = managers_of(live), values_of(document)
        merged = copy_document(live)
        kept = set().union(applied, *(fields for it, fields in managers.items() if it != OURS))
        for path in sorted(managers.get(OURS, set()) - kept, reverse=True):
            remove_at(merged, path)
        merged = merged_by(schema_of(document["kind"]), merged, document)
        before = values_of(live) if "kind" in live else {}
        changed = {path for path in applied if path not in before or before[path] != applied[path]}
        owned = {it: fields - changed for it, fields in managers.items()} | {OURS: set(applied)}
        return self._store(merged, live, owned)

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        live = self.stored[self._key(document)]
        self._check_version(live, document["metadata"]["resourceVersion"])
        self.writes.append(f"patch {document['kind']}/{document['metadata']['name']}")
        patched = copy_document(live)
        for operation in operations:
            *above, last = operation["path"].split("/")[1:]
            target = patched
            for name in above:
                target = target[name]
            if operation["op"] == "remove":
                del target[last]
            else:
                target[last] = copy_document(operation["value"])
        return self._update(live, patched, _PATCHER)

    async def delete_only(self, document: Document) -> None:
        self.writes.append(f"delete {document['kind']}/{document['metadata']['name']}")
        del self.stored[self._key(document)]

    def edit(self, key: ObjectKey, change: Callable[[Document], object]) -> None:
        """Change an object as a user does with ``kubectl edit``."""
        live = self.stored[key]
        edited = copy_document(live)
        change(edited)
        self._update(live, edited, USER)

    def content(self, key: ObjectKey) -> Document:
        """Return an object without versions and managers."""
        found = copy_document(self.stored[key])
        for name in ("managedFields", "resourceVersion"):
            found["metadata"].pop(name, None)
        return found

    def _update(self, live: Document, new: Document, manager: tuple[str, str]) -> Document:
        managers, before, after = managers_of(new), values_of(live), values_of(new)
        changed = {path for path in after if path not in before or before[path] != after[path]}
        owned = {it: (fields - changed) & set(after) for it, fields in managers.items()}
        owned[manager] = owned.get(manager, set()) | changed
        return self._store(new, live, owned)

    def _store(self, document: Document, live: Document, managers: dict[tuple[str, str], set[Path]]) -> Document:
        written = copy_document(document)
        add_defaults(written, live)
        check(written, live)
        allocate_ports(written, live, self._allocated)
        version = int(live["metadata"].get("resourceVersion", "0"))
        written["metadata"]["uid"] = live["metadata"].get("uid", f"uid-of-{written['metadata']['name']}")
        written["metadata"]["managedFields"] = [
            {"manager": name, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields_v1(fields)}
            for (name, operation), fields in sorted(managers.items())
            if fields
        ]
        has_changed = {**written, "metadata": {**written["metadata"], "resourceVersion": str(version)}} != live
        written["metadata"]["resourceVersion"] = str(version + has_changed)
        self.stored[self._key(written)] = written
        return copy_document(written)

    @staticmethod
    def _check_version(live: Document, version: str | None) -> None:
        if version is not None and version != live["metadata"].get("resourceVersion"):
            raise ApiError(409, "Conflict", "it has changed")


def values_of(document: Document) -> dict[Path, Any]:
    """Return the values of an object by the paths of ``fieldsV1``; of an atomic field as a whole."""
    managed = {name: value for name, value in document.items() if name not in _UNMANAGED}
    metadata = {name: it for name, it in document["metadata"].items() if name not in _UNMANAGED_METADATA}
    return dict(_values(schema_of(document["kind"]), {**managed, "metadata": metadata}, ()))


def _values(schema: Schema, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if is_atomic(schema, value) or not value:
        yield path, value
    elif isinstance(value, dict):
        for name, it in value.items():
            yield from _values(field_schema(schema, name), it, (*path, f"f:{name}"))
    else:
        for it in value:
            element, items = (*path, element_name(schema, it)), resolved(schema["items"])
            if is_atomic(items, it):
                yield element, it
            else:
                yield element, None
                yield from _values(items, it, element)


def element_name(schema: Schema, element: Any) -> str:
    keys = schema.get("x-kubernetes-list-map-keys")
    named = {key: element[key] for key in keys if key in element} if keys else element
    return f"{'k' if keys else 'v'}:{json.dumps(named, sort_keys=True)}"


def merged_by(schema: Schema, live: Any, applied: Any) -> Any:
    """Return ``live`` with the applied fields."""
    if is_atomic(schema, applied) or type(live) is not type(applied):
        return copy_document(applied)
    if isinstance(applied, dict):
        fields = {name: merged_by(field_schema(schema, name), live.get(name), it) for name, it in applied.items()}
        return {**live, **fields}
    items, known = resolved(schema["items"]), {element_name(schema, it): it for it in live}
    ours = {element_name(schema, it): it for it in applied}
    merged = [merged_by(items, known.get(name), it) for name, it in ours.items()]
    return [*merged, *(it for name, it in known.items() if name not in ours)]


def remove_at(value: Any, path: Path) -> None:
    name, *rest = path
    if isinstance(value, dict):
        field = name.removeprefix("f:")
        if rest and field in value:
            remove_at(value[field], tuple(rest))
        elif not rest:
            value.pop(field, None)
    else:
        named = json.loads(name[2:])
        for it in [it for it in value if it == named or (isinstance(it, dict) and named.items() <= it.items())]:
            if rest:
                remove_at(it, tuple(rest))
            else:
                value.remove(it)


def fields_v1(paths: set[Path]) -> Document:
    trie: Document = {}
    for path in sorted(paths):
        fields = trie
        for name in path:
            fields = fields.setdefault(name, {})
        if path[-1][:2] in ("k:", "v:"):
            fields["."] = {}
    return trie


def managers_of(document: Document) -> dict[tuple[str, str], set[Path]]:
    entries = document["metadata"].get("managedFields", [])
    return {(it["manager"], it["operation"]): set(_paths_of(it["fieldsV1"], ())) for it in entries}


def _paths_of(fields: Document, path: Path) -> Iterator[Path]:
    if not fields or "." in fields:
        yield path
    for name, inner in fields.items():
        if name != ".":
            yield from _paths_of(inner, (*path, name))


def add_defaults(document: Document, live: Document) -> None:
    """Add, in place, fields that the API server defaults."""
    if "spec" in schema_of(document["kind"])["properties"]:
        document.setdefault("spec", {})
    spec, before = document.get("spec", {}), live.get("spec", {})
    match document["kind"]:
        case "Service":
            for name, value in {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ipFamilyPolicy": "SingleStack",
            }.items():
                spec.setdefault(name, value)
            spec.setdefault("clusterIP", before.get("clusterIP", "10.0.0.1"))
            for it in spec.get("ports", ()):
                it.setdefault("protocol", "TCP")
        case "StatefulSet":
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("replicas", 1)
            pod = spec.setdefault("template", {}).setdefault("spec", {})
            for name, value in {"restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}.items():
                pod.setdefault(name, value)
            for it in pod.get("containers", ()):
                it.setdefault("imagePullPolicy", "IfNotPresent")
        case "NetworkPolicy":
            spec.setdefault("policyTypes", ["Ingress"])


def allocate_ports(document: Document, live: Document, ports: Iterator[int]) -> None:
    """Allocate the node ports of a Service in place, or keep those that it has."""
    if document["kind"] != "Service":
        return
    known = {it["port"]: it["nodePort"] for it in live.get("spec", {}).get("ports", ()) if "nodePort" in it}
    for it in document["spec"]["ports"]:
        if document["spec"]["type"] == "ClusterIP":
            it.pop("nodePort", None)
        elif "nodePort" not in it:
            it["nodePort"] = known.get(it["port"]) or next(ports)


def lacks_fields(schema: Schema, value: Any) -> bool:
    """Tell whether a required field is missing."""
    if isinstance(value, list):
        return any(lacks_fields(resolved(schema.get("items", {})), it) for it in value)
    if not isinstance(value, dict):
        return False
    required = schema.get("required", ())
    return not value.keys() >= {*required} or any(lacks_fields(field_schema(schema, it), value[it]) for it in value)


def check(document: Document, live: Document) -> None:
    """Raise 422 for what the API server rejects of the operator's writes, and of edits."""
    spec, before = document.get("spec", {}), live.get("spec", {})
    owners = document["metadata"].get("ownerReferences", [])
    wrong = [
        lacks_fields(schema_of(document["kind"]), document),
        sum(bool(it.get("controller")) for it in owners) > 1,
        bool(live.get("immutable")) and document.get("data") != live.get("data"),
        document["kind"] == "StatefulSet" and bool(before) and any(spec.get(it) != before[it] for it in _IMMUTABLE),
        document["kind"] == "Service" and bool(before) and spec["clusterIP"] != before["clusterIP"],
        document["kind"] == "Service" and not spec.get("ports"),
        document["kind"] == "PodDisruptionBudget" and "minAvailable" in spec and "maxUnavailable" in spec,
    ]
    named = [spec.get("ports"), spec.get("template", {}).get("spec", {}).get("containers")]
    wrong += [len({it.get("name") for it in found}) < len(found) for found in named if found]
    if any(wrong):
        raise ApiError(422, "Invalid", f"{document['kind']} {document['metadata']['name']} is invalid")
