"""The port to the objects of a Kubernetes API."""

from typing import Protocol

from ottla_operator.model.document import Document


class ObjectStore(Protocol):
    """The calls of `adapters.kubernetes.api.KubernetesApi` that hosts use."""

    async def get(self, kind: str, namespace: str, name: str) -> Document | None: ...
    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]: ...
    async def create(self, document: Document) -> Document: ...
    async def apply(self, document: Document) -> Document: ...
    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None: ...


class ClusterObjectStore(ObjectStore, Protocol):
    """With the calls that only the host of clusters needs."""

    async def delete_only(self, document: Document) -> None: ...
