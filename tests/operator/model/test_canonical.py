"""The API server stores a manifest as written, so that GitOps tools find no difference.

A default inside a list is a permanent difference, because a JSON merge replaces whole lists. Early schemas had such
defaults; objects that were stored with them keep their meaning.
"""

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ottla_operator.controllers.manager import ControllerManager
from ottla_operator.model import kubernetes_objects, schema
from ottla_operator.model.document import KINDS, Document, Json, Schema
from ottla_operator.model.manifest import Cluster, ObjectKey
from ottla_operator.model.nodes import desired_cluster
from ottla_operator.model.topic import Topic
from ottla_operator.model.user import User

ROOT = Path(__file__).parents[3]
PARSERS: dict[str, Callable[[Document], Any]] = {"Cluster": Cluster.parse, "Topic": Topic.parse, "User": User.parse}
POOL = "spec.pools[]"
RULE = "spec.authorization.rules[]"
DEFAULTS_OF_BEFORE: dict[str, dict[str, Json]] = {
    "Cluster": {f"{POOL}.roles": ["broker", "controller"], f"{POOL}.firstNodeId": 0},
    "Topic": {"spec.deletionPolicy": "Retain"},
    "User": {
        f"{RULE}.host": "*",
        f"{RULE}.type": "allow",
        f"{RULE}.resource.patternType": "literal",
        "spec.authentication.rotation.overlapSeconds": 0,
    },
}
"""The defaults of early schemas, by kind and path."""


def documents(*files: Path) -> list[Any]:
    """Return the operator's objects in ``files``, each with an id that names its file."""
    return [
        pytest.param(document, id=f"{file.parent.name}-{file.stem}-{document['metadata']['name']}")
        for file in files
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if document["kind"] in KINDS
    ]


EVERY_MANIFEST = pytest.mark.parametrize(
    "manifest",
    documents(*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((ROOT / "tests/charts/golden").glob("*.yaml"))),
)
"""Examples, and manifests rendered from the charts."""


def with_defaults(value: Json, schema: Schema) -> Json:
    """Return ``value`` as an early API server stored it: with the schema's defaults for existing fields."""
    if isinstance(value, dict):
        children = schema.get("properties", {})
        absent = {name: it["default"] for name, it in children.items() if "default" in it and name not in value}
        return {name: with_defaults(it, children.get(name, {})) for name, it in (value | absent).items()}
    if isinstance(value, list):
        return [with_defaults(it, schema["items"]) for it in value]
    return value


def schema_of_before(kind: str) -> Schema:
    """Return the schema of ``kind`` with its early defaults."""
    before = copy.deepcopy(schema.structural_schema(kind))
    for path, default in DEFAULTS_OF_BEFORE[kind].items():
        at = before
        for part in path.split("."):
            at = at["properties"][part.removesuffix("[]")]
            at = at["items"] if part.endswith("[]") else at
        at["default"] = default
    return before


def as_stored_before(manifest: Document) -> Document:
    return {**manifest, "spec": with_defaults(manifest, schema_of_before(manifest["kind"]))["spec"]}


@EVERY_MANIFEST
def test_server_stores_what_the_manifest_says(manifest: Document) -> None:
    admitted = schema.admit(manifest)

    assert with_defaults(admitted, schema.structural_schema(manifest["kind"]))["spec"] == manifest["spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_field_has_a_default(kind: str) -> None:
    def defaults(schema: Schema) -> list[Json]:
        children = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else ())]
        return [
            *([schema["default"]] if "default" in schema else ()),
            *(it for one in children for it in defaults(one)),
        ]

    assert defaults(schema.structural_schema(kind)) == []
    assert len(defaults(schema_of_before(kind))) == len(DEFAULTS_OF_BEFORE[kind])


@EVERY_MANIFEST
def test_object_of_before_is_valid_and_the_same(manifest: Document) -> None:
    stored, parse = as_stored_before(manifest), PARSERS[manifest["kind"]]

    assert schema.admit(stored)["spec"] == stored["spec"]
    assert schema.admit(manifest, stored)["spec"] == manifest["spec"]
    assert schema.admit(stored, manifest)["spec"] == stored["spec"]
    assert parse(stored) == parse(manifest)


def test_objects_of_before_differ_where_they_had_defaults() -> None:
    """Otherwise the comparisons above would prove nothing."""
    manifests = [it.values[0] for it in documents(*(ROOT / "examples").rglob("*.yaml"))]

    changed = {it["kind"] for it in manifests if as_stored_before(it)["spec"] != it["spec"]}

    assert changed == set(KINDS)


def test_pods_of_a_cluster_of_before_stay(cluster_manifest: Callable[..., Document]) -> None:
    def rendered(manifest: Document) -> list[Document]:
        cluster = Cluster.parse(manifest)
        desired = desired_cluster(
            cluster, lambda pool, ordinal, _: kubernetes_objects.place(cluster, pool, ordinal), image="ottla/broker:1"
        )
        return list(kubernetes_objects.objects(desired))

    manifest = cluster_manifest(nodes=3)
    manifest["metadata"]["uid"] = "u"

    assert as_stored_before(manifest) != manifest
    assert rendered(as_stored_before(manifest)) == rendered(manifest)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_where_an_object_of_before_loses_its_defaults(
    kind: str,
    request: pytest.FixtureRequest,
    controller: ControllerManager,
    api: Any,
    brokers: Any,
    with_cluster: Document,
) -> None:
    manifest: Document = request.getfixturevalue(f"{kind.lower()}_manifest")()
    key = ObjectKey(kind, "kafka", manifest["metadata"]["name"])
    api.put({**as_stored_before(manifest), "status": with_cluster["status"] if kind == "Cluster" else {}})
    for _ in range(2):
        asyncio.run(controller.reconcile(key))
    assert api.writes
    api.writes.clear()
    brokers.changes.clear()

    assert api.stored[key]["spec"] != manifest["spec"]
    api.stored[key]["spec"] = manifest["spec"]
    asyncio.run(controller.reconcile(key))

    assert (api.writes, brokers.changes) == ([], [])
