"""The Kubernetes API in the operator's terms: the calls that kopf does not have.

The operator's objects are written by server-side apply, always by one field manager. Source: Kubernetes API concepts,
"server-side apply" and "API verbs".
"""

import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from ottla_operator.adapters.kubernetes.api_calls import OnCall
from ottla_operator.adapters.kubernetes.connection import REQUEST_TIMEOUT_S, Connection
from ottla_operator.adapters.kubernetes.credentials import LoadConfiguration
from ottla_operator.adapters.kubernetes.managed_fields import FIELD_MANAGER
from ottla_operator.errors import ApiError
from ottla_operator.model.document import Document

_MERGE = "application/merge-patch+json"
_PATCH = "application/json-patch+json"
"""Content types of a PATCH: a merge (RFC 7386), a JSON patch (RFC 6902)."""

_PAGE_SIZE = 500
_LISTINGS_MAX = 3
"""Attempts of one call whose pages expire meanwhile."""
_NOTE_SIZE_BYTES_MAX = 1_000
"""In UTF-8; the API server rejects longer notes."""


class KubernetesApi:
    """One session with the API server; use it as an async context manager.

    Every method raises `ApiError` for an error response, and OSError or TimeoutError without a response.
    """

    def __init__(
        self,
        load: LoadConfiguration,
        *,
        on_call: OnCall | None = None,
        may_write: Callable[[], bool] = lambda: True,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """``on_call`` receives each request; a request that changes something is not sent unless ``may_write``."""
        self._connection = Connection(load, on_call=on_call, may_write=may_write, request_timeout_s=request_timeout_s)

    async def __aenter__(self) -> Self:
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return the object; None without one."""
        try:
            return await self._connection.send("get", kind, namespace=namespace, name=name)
        except ApiError as error:
            if error.is_missing:
                return None
            raise

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        """Return all objects of ``kind`` in ``namespace`` (empty: in all) that match the label selector."""
        for listing in range(1, _LISTINGS_MAX + 1):
            try:
                return await self._listed(kind, namespace, labels)
            except ApiError as error:
                if not error.is_expired or listing == _LISTINGS_MAX:
                    raise
        raise AssertionError("the last listing returns or raises")

    async def _listed(self, kind: str, namespace: str, labels: str) -> list[Document]:
        items: list[Document] = []
        token: str | None = None
        while True:
            page = await self._connection.send(
                "get", kind, namespace=namespace, limit=_PAGE_SIZE, label_selector=labels or None, _continue=token
            )
            # Items of a list come without their kind and version.
            items += [{**item, "apiVersion": page["apiVersion"], "kind": kind} for item in page["items"]]
            token = page["metadata"].get("continue")
            if not token:
                return items

    async def can_list(self, kind: str, namespace: str = "") -> None:
        """Raise unless objects of ``kind`` can be listed: 404 if it is not installed, 403 without the permission."""
        await self._connection.send("get", kind, namespace=namespace, limit=1)

    async def create(self, document: Document) -> Document:
        """Create an object (409 AlreadyExists if there is one). A later apply removes none of its fields."""
        return await self._create(document)

    async def dry_run_create(self, document: Document) -> None:
        """Return if the API server would create the object now: all of its admission runs, and nothing is stored."""
        await self._create(document, dry_run="All")

    async def warnings_about(self, document: Document) -> list[Document]:
        """Return the recorded Events of type Warning about this very object, by its uid; the server keeps them briefly.

        Source: AddFieldLabelConversionsForEvent in Kubernetes' pkg/apis/events/v1.
        """
        metadata = document["metadata"]
        selector = f"type=Warning,regarding.uid={metadata['uid']}"
        found = await self._connection.send(
            "get", "Event", namespace=metadata["namespace"], field_selector=selector, limit=_PAGE_SIZE
        )
        return list(found["items"])

    async def replace(self, document: Document) -> Document:
        """Replace the whole object, unless it was changed since it was read (409 Conflict)."""
        return await self._write("replace", document, document)

    async def apply(self, document: Document) -> Document:
        """Apply the fields of ``document``, and remove those of an earlier apply that are not in it.

        With a ``resourceVersion`` only if the object has that version (else 409 Conflict).
        """
        return await self._write("server_side_apply", document, document, force_conflicts=True)

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        """Apply a JSON patch (RFC 6902) to the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        found = document["metadata"]["resourceVersion"]
        version = {"op": "add", "path": "/metadata/resourceVersion", "value": found}
        return await self._write("patch", document, [version, *operations], content_type=_PATCH)

    async def apply_status(self, document: Document, status: Document) -> Document:
        """Apply ``status`` as this operator's whole part of the status, and return the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict): a write that is executed
        late must not replace a later one.
        """
        metadata = document["metadata"]
        body = {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
            "status": status,
        }
        return await self._write("server_side_apply", document, body, subresource="status", force_conflicts=True)

    async def patch_status(self, document: Document, patch: Document) -> Document:
        """Merge ``patch`` (RFC 7386) into the status, and return the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "status", {}, {"status": patch})

    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        """Set the finalizers, and return the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "", {"finalizers": finalizers}, {})

    async def _merge(self, document: Document, subresource: str, metadata: Document, patch: Document) -> Document:
        """Merge into the object, if it has the version of ``document``."""
        version = {"resourceVersion": document["metadata"]["resourceVersion"]}
        body = {"metadata": {**version, **metadata}, **patch}
        return await self._write("patch", document, body, subresource=subresource, content_type=_MERGE)

    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None:
        """Create an Event about an object, for ``kubectl describe`` and ``kubectl events``."""
        body = _event(document, reason=reason, note=note, is_warning=is_warning)
        await self._connection.send("create", "Event", namespace=document["metadata"]["namespace"], body=body)

    async def is_namespace_terminating(self, document: Document) -> bool:
        """Tell whether the namespace of an object is being deleted, by the response to a dry run of an Event.

        Reading namespaces needs a cluster-wide permission, which an operator of some namespaces cannot have.
        """
        body = _event(document, reason="Looking", note="is the namespace there?", is_warning=False)
        namespace = document["metadata"]["namespace"]
        try:
            await self._connection.send("create", "Event", namespace=namespace, body=body, dry_run="All")
        except ApiError as error:
            if not error.is_terminating:
                raise
            return True
        return False

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None:
        """Delete in the background, with the object's own grace period; no error if it is gone already.

        With a ``uid`` only the observed object (else 409 Conflict), and not one that was created in its place.
        """
        conditions = {"preconditions": {"uid": uid}} if uid else {}
        await self._delete(kind, namespace, name, {"propagationPolicy": "Background", **conditions})

    async def delete_only(self, document: Document) -> None:
        """Delete only the observed object, by its uid (else 409 Conflict), and nothing that it owns.

        No error if it is gone already.
        """
        metadata = document["metadata"]
        body = {"propagationPolicy": "Orphan", "preconditions": {"uid": metadata["uid"]}}
        await self._delete(document["kind"], metadata["namespace"], metadata["name"], body)

    async def _delete(self, kind: str, namespace: str, name: str, body: Document) -> None:
        try:
            await self._connection.send("delete", kind, namespace=namespace, name=name, body=body)
        except ApiError as error:
            if not error.is_missing:
                raise

    async def _create(self, document: Document, *, dry_run: str | None = None) -> Document:
        return await self._connection.send(
            "create",
            document["kind"],
            namespace=document["metadata"]["namespace"],
            body=document,
            field_manager=FIELD_MANAGER,
            dry_run=dry_run,
        )

    async def _write(
        self,
        verb: str,
        document: Document,
        body: Document | list[Document],
        *,
        subresource: str = "",
        **options: object,
    ) -> Document:
        """Write ``body`` to the object of ``document``, as the operator's field manager."""
        metadata = document["metadata"]
        return await self._connection.send(
            verb,
            document["kind"],
            namespace=metadata["namespace"],
            name=metadata["name"],
            subresource=subresource,
            body=body,
            field_manager=FIELD_MANAGER,
            **options,
        )


def _event(document: Document, *, reason: str, note: str, is_warning: bool) -> Document:
    """Return an Event about ``document``, as ``kubectl`` shows it."""
    metadata = document["metadata"]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name']}-", "namespace": metadata["namespace"]},
        "regarding": {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "type": "Warning" if is_warning else "Normal",
        "reason": reason,
        "note": note.encode()[:_NOTE_SIZE_BYTES_MAX].decode(errors="ignore"),
        "action": "Reconcile",
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": FIELD_MANAGER,
        "reportingInstance": socket.gethostname(),
    }
