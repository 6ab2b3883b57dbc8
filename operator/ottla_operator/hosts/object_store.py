"""The port to the objects of a Kubernetes API."""

from typing import Protocol

from ottla_operator.model.document import Document, Json


class ObjectStore(Protocol):
    """The calls of `clients.kubernetes_api.KubernetesApi` that hosts make."""

    async def get(self, kind: str, namespace: str, name: str) -> Document | None: ...
    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]: ...
    async def create(self, document: Document) -> Document: ...
    async def apply(self, document: Document) -> Document: ...
    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None: ...


class ClusterObjectStore(ObjectStore, Protocol):
    """What the host of clusters needs besides."""

    async def delete_only(self, document: Document) -> None: ...


def covers(found: Json, wanted: Json) -> bool:
    """Tell whether ``found`` says everything that ``wanted`` says; what the API server added does not matter."""
    if isinstance(wanted, dict):
        # The API server drops some of what is empty, and keeps other.
        return isinstance(found, dict) and all(
            covers(found[name], value) if name in found else value in ({}, []) for name, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(covers(it, value) for it, value in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)
