"""Kubernetes' OpenAPI schemas: which fields a kind has, and how server-side apply merges them."""

import functools
import importlib.resources
import json
from typing import Any

import kubernetes_validate

Schema = dict[str, Any]
KINDS = {
    "ConfigMap": "io.k8s.api.core.v1.ConfigMap",
    "NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "Secret": "io.k8s.api.core.v1.Secret",
    "Service": "io.k8s.api.core.v1.Service",
    "ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
}
_CUSTOM_RESOURCE: Schema = {
    "properties": {"metadata": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}}
}
NEWEST = kubernetes_validate.latest_version()


@functools.cache
def definitions(release: str = NEWEST) -> dict[str, Schema]:
    folder = importlib.resources.files("kubernetes_validate") / "kubernetes-json-schema" / f"v{release}-local"
    found: dict[str, Schema] = json.loads((folder / "_definitions.json").read_text())["$defs"]
    return found


def schema_of(kind: str, release: str = NEWEST) -> Schema:
    return definitions(release)[KINDS[kind]] if kind in KINDS else _CUSTOM_RESOURCE


def resolved(schema: Schema, release: str = NEWEST) -> Schema:
    """Return the schema that ``$ref`` names."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return definitions(release)[name] if name else schema


def field_schema(schema: Schema, name: str) -> Schema:
    """Return the schema of a field, or of a value of a map; of anything if it is not defined."""
    found = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
    return resolved(found) if isinstance(found, dict) else {}


def is_atomic(schema: Schema, value: Any) -> bool:
    """Tell whether server-side apply replaces the value as a whole."""
    if isinstance(value, dict):
        return schema.get("x-kubernetes-map-type") == "atomic"
    return not isinstance(value, list) or schema.get("x-kubernetes-list-type") not in ("map", "set")
