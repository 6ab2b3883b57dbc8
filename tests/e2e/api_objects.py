"""Objects of the Kubernetes under test by the official client: a read costs no process, which polls would pay for."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.dynamic import DynamicClient, Resource

Document = dict[str, Any]


class ApiObjects:
    """Reads objects by kubectl's names of their kinds: ``pod``, ``pods``, ``po``, ``Pod``, ``cluster.ottla.dev``."""

    def __init__(self) -> None:
        cache_file = Path(tempfile.mkdtemp(prefix="ottla-e2e-")) / "discovered.json"
        self._client = DynamicClient(config.new_client_from_config(), cache_file=str(cache_file))
        self._known: dict[str, Resource] = {}

    def get(self, kind: str, namespace: str, name: str) -> Document:
        """Return one object; raise `kubernetes.dynamic.exceptions.NotFoundError` without it."""
        found: Document = self._resource(kind).get(name=name, namespace=namespace).to_dict()
        return found

    def list(self, kind: str, namespace: str, selector: str = "") -> list[Document]:
        """Return all objects of a namespace that match a label selector."""
        found = self._resource(kind).get(namespace=namespace, label_selector=selector or None)
        items: list[Document] = found.to_dict()["items"]
        return items

    def _resource(self, kind: str) -> Resource:
        name = kind.lower()
        if name not in self._known:
            # Definitions may have been installed since.
            self._client.resources.invalidate_cache()
            self._known = _by_name(self._client)
        return self._known[name]


def _by_name(client: DynamicClient) -> dict[str, Resource]:
    """Return resources by plural, singular and short name, each with and without its group, the preferred one first."""
    found: dict[str, Resource] = {}
    for listed in client.resources:
        for resource in listed:
            if not isinstance(resource, Resource) or "get" not in (resource.verbs or ()):
                continue
            for name in {resource.name, resource.singular_name, *(resource.short_names or ())}:
                found.setdefault(name, resource)
                found.setdefault(f"{name}.{resource.group}" if resource.group else name, resource)
    return found


@cache
def api_objects() -> ApiObjects:
    """Return the one reader of this process."""
    return ApiObjects()
