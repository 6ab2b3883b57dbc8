"""An API server in memory, behind the calls of the operator's client."""

from collections.abc import Sequence
from typing import Any

from document_copies import copy_document

from ottla_operator.errors import ApiError
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.cluster_ownership import OWNERSHIP_FIELD

Document = dict[str, Any]


class FakeApi:
    """An API server in memory that stores objects and counts writes."""

    def __init__(self) -> None:
        self.stored: dict[ObjectKey, Document] = {}
        self.writes: list[str] = []
        self.events: list[tuple[str, str, bool]] = []
        self.regarded: list[ObjectKey] = []
        """The object of each event."""
        self.going: set[str] = set()
        """Namespaces that are being deleted."""
        self.fails_events = False
        self.fails: Exception | None = None
        self.rejects: tuple[str, ApiError] | None = None
        """A kind whose creation is rejected, and the error."""
        self.undefined: set[str] = set()
        """Kinds whose CRD is not installed."""

    def put(self, document: Document, **metadata: Any) -> Document:
        document = copy_document(document)
        document["metadata"] = {
            "namespace": "kafka",
            "uid": f"uid-{document['metadata']['name']}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **document["metadata"],
            **metadata,
        }
        self.stored[self._key(document)] = document
        return document

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        self._fail()
        return copy_document(self.stored.get(ObjectKey(kind, namespace, name)))

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        self._fail()
        if kind in self.undefined:
            raise ApiError(404, "NotFound", "404 page not found")
        return [
            copy_document(it)
            for key, it in self.stored.items()
            if key.kind == kind and namespace in ("", key.namespace)
        ]

    async def create(self, document: Document) -> Document:
        if self._key(document) in self.stored:
            raise ApiError(409, "AlreadyExists", "it is there already")
        self.writes.append(f"create {document['kind']}")
        return self._write(document, "1")

    async def dry_run_create(self, document: Document) -> None:
        self._fail()
        if self.rejects is not None and document["kind"] == self.rejects[0]:
            raise self.rejects[1]

    async def warnings_about(self, document: Document) -> list[Document]:
        self._fail()
        return []

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        there = self._as_read(document)
        for operation in operations:
            assert operation["path"] == "/metadata/annotations", "only marks are patched"
            there["metadata"]["annotations"] = copy_document(operation["value"])
        self.writes.append(f"patch {document['kind']}")
        return self._changed(there)

    async def apply(self, document: Document) -> Document:
        known = self.stored.get(self._key(document), {"metadata": {}})["metadata"].get("resourceVersion", "0")
        if document["metadata"].get("resourceVersion", known) != known:
            raise ApiError(409, "Conflict", f"it is of version {known}")
        self.writes.append(f"apply {document['kind']}")
        return self._write(document, str(int(known) + 1))

    def _write(self, document: Document, version: str) -> Document:
        written = copy_document(document)
        written["metadata"]["resourceVersion"] = version
        self.stored[self._key(document)] = written
        return copy_document(written)

    async def apply_status(self, document: Document, status: Document) -> Document:
        there = self._as_read(document)
        self.writes.append(f"status {document['kind']}")
        # Merged fields have another manager, and stay.
        claim = {key: it for key, it in there.get("status", {}).items() if key == OWNERSHIP_FIELD}
        there["status"] = claim | copy_document(status)
        return self._changed(there)

    async def patch_status(self, document: Document, patch: Document) -> Document:
        there = self._as_read(document)
        self.writes.append(f"claim {document['kind']}")
        merged = {key: {name: it for name, it in part.items() if it is not None} for key, part in patch.items()}
        there["status"] = {**there.get("status", {}), **copy_document(merged)}
        return self._changed(there)

    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        there = self._as_read(document)
        self.writes.append(f"finalizers {finalizers}")
        there["metadata"]["finalizers"] = finalizers
        return self._changed(there)

    def _as_read(self, document: Document) -> Document:
        there = self.stored[self._key(document)]
        if there["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has changed")
        return there

    @staticmethod
    def _changed(there: Document) -> Document:
        there["metadata"]["resourceVersion"] = str(int(there["metadata"]["resourceVersion"]) + 1)
        return copy_document(there)

    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None:
        if self.fails_events:
            raise ApiError(403, "Forbidden", "no")
        self.events.append((reason, note, is_warning))
        self.regarded.append(self._key(document))

    async def is_namespace_terminating(self, document: Document) -> bool:
        return document["metadata"]["namespace"] in self.going

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None:
        self.writes.append(f"delete {kind}/{name}")
        self.stored.pop(ObjectKey(kind, namespace, name), None)

    def reasons(self, key: ObjectKey) -> dict[str, tuple[str, str]]:
        """Return an object's conditions, by type: status and reason."""
        return {it["type"]: (it["status"], it["reason"]) for it in self.stored[key]["status"]["conditions"]}

    def message(self, key: ObjectKey) -> str:
        """Return the message of an object's condition Ready."""
        (ready,) = [it for it in self.stored[key]["status"]["conditions"] if it["type"] == "Ready"]
        return str(ready["message"])

    def _fail(self) -> None:
        if self.fails is not None:
            raise self.fails

    @staticmethod
    def _key(document: Document) -> ObjectKey:
        metadata = document["metadata"]
        return ObjectKey(document["kind"], metadata["namespace"], metadata["name"])
