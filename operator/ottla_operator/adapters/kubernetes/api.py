"""A thin client of the Kubernetes API over aiohttp, with kopf's credentials: for calls that kopf does not have.

The operator's objects are written by server-side apply, always by one field manager. Source: Kubernetes API concepts,
"server-side apply" and "API verbs".

Transient failures are retried here, by `adapters.kubernetes.retries`.
"""

import json
import socket
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import kopf

from ottla_operator.adapters.kubernetes.api_calls import OnCall, trace
from ottla_operator.adapters.kubernetes.managed_fields import FIELD_MANAGER
from ottla_operator.adapters.kubernetes.retries import APPLY, JSON, MERGE, PATCH, with_retries
from ottla_operator.errors import NAMESPACE_TERMINATING, ApiError, LeadershipLostError
from ottla_operator.model.document import Document, Json

REQUEST_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 5
_PAGE_SIZE = 500
_LISTINGS_MAX = 3
"""Attempts of one call whose pages expire meanwhile."""
_NOTE_SIZE_BYTES_MAX = 1_000
"""In UTF-8; the API server rejects longer notes."""


class Resource(NamedTuple):
    """URL prefix and plural of a kind."""

    prefix: str
    plural: str


RESOURCES = {
    "Cluster": Resource("/apis/ottla.dev/v1", "clusters"),
    "Topic": Resource("/apis/ottla.dev/v1", "topics"),
    "User": Resource("/apis/ottla.dev/v1", "users"),
    "StatefulSet": Resource("/apis/apps/v1", "statefulsets"),
    "Service": Resource("/api/v1", "services"),
    "ConfigMap": Resource("/api/v1", "configmaps"),
    "ServiceAccount": Resource("/api/v1", "serviceaccounts"),
    "NetworkPolicy": Resource("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": Resource("/apis/policy/v1", "poddisruptionbudgets"),
    "Secret": Resource("/api/v1", "secrets"),
    "Certificate": Resource("/apis/cert-manager.io/v1", "certificates"),
    "Pod": Resource("/api/v1", "pods"),
    "Node": Resource("/api/v1", "nodes"),
    "PersistentVolumeClaim": Resource("/api/v1", "persistentvolumeclaims"),
    "Event": Resource("/apis/events.k8s.io/v1", "events"),
    "Lease": Resource("/apis/coordination.k8s.io/v1", "leases"),
}


class KubernetesApi:
    """One session with the API server; use it as an async context manager.

    Every method raises `ApiError` for an error response, and OSError or TimeoutError without a response.
    """

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo],
        *,
        on_call: OnCall | None = None,
        may_write: Callable[[], bool] = lambda: True,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """``on_call`` receives each request; a request that changes something is not sent unless ``may_write``."""
        self._login = login
        self._on_call = on_call
        self._may_write = may_write
        self._request_timeout_s = request_timeout_s
        self._connection: kopf.ConnectionInfo | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._close()

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return the object; None without one."""
        try:
            return await self._request("GET", _path(kind, namespace, name))
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
        parameters = {"limit": str(_PAGE_SIZE), **({"labelSelector": labels} if labels else {})}
        items: list[Document] = []
        while True:
            page = await self._request("GET", _path(kind, namespace), parameters=parameters)
            # Items of a list come without their kind and version.
            items += [{**item, "apiVersion": page["apiVersion"], "kind": kind} for item in page["items"]]
            token = page["metadata"].get("continue")
            if not token:
                return items
            parameters["continue"] = token

    async def can_list(self, kind: str, namespace: str = "") -> None:
        """Raise unless objects of ``kind`` can be listed: 404 if it is not installed, 403 without the permission."""
        await self._request("GET", _path(kind, namespace), parameters={"limit": "1"})

    async def create(self, document: Document) -> Document:
        """Create an object (409 AlreadyExists if there is one). A later apply removes none of its fields."""
        path = _path(document["kind"], document["metadata"]["namespace"])
        return await self._request("POST", path, parameters={"fieldManager": FIELD_MANAGER}, body=document)

    async def replace(self, document: Document) -> Document:
        """Replace the whole object, unless it was changed since it was read (409 Conflict)."""
        metadata = document["metadata"]
        path = _path(document["kind"], metadata["namespace"], metadata["name"])
        return await self._request("PUT", path, parameters={"fieldManager": FIELD_MANAGER}, body=document)

    async def apply(self, document: Document) -> Document:
        """Apply the fields of ``document``, and remove those of an earlier apply that are not in it.

        With a ``resourceVersion`` only if the object has that version (else 409 Conflict).
        """
        metadata = document["metadata"]
        return await self._apply(_path(document["kind"], metadata["namespace"], metadata["name"]), document)

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        """Apply a JSON patch (RFC 6902) to the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        metadata = document["metadata"]
        version = {"op": "add", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        return await self._request(
            "PATCH",
            _path(document["kind"], metadata["namespace"], metadata["name"]),
            parameters={"fieldManager": FIELD_MANAGER},
            body=[version, *operations],
            content_type=PATCH,
        )

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
        return await self._apply(_path(document["kind"], metadata["namespace"], metadata["name"]) + "/status", body)

    async def patch_status(self, document: Document, patch: Document) -> Document:
        """Merge ``patch`` (RFC 7386) into the status, and return the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "/status", {}, {"status": patch})

    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        """Set the finalizers, and return the object.

        Only if the object was not changed since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "", {"finalizers": finalizers}, {})

    async def _merge(self, document: Document, subresource: str, metadata: Document, patch: Document) -> Document:
        """Merge into the object, if it has the version of ``document``."""
        found = document["metadata"]
        return await self._request(
            "PATCH",
            _path(document["kind"], found["namespace"], found["name"]) + subresource,
            parameters={"fieldManager": FIELD_MANAGER},
            body={"metadata": {"resourceVersion": found["resourceVersion"], **metadata}, **patch},
            content_type=MERGE,
        )

    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None:
        """Create an Event about an object, for ``kubectl describe`` and ``kubectl events``."""
        body = _event(document, reason=reason, note=note, is_warning=is_warning)
        await self._request("POST", _path("Event", document["metadata"]["namespace"]), body=body)

    async def is_namespace_terminating(self, document: Document) -> bool:
        """Tell whether the namespace of an object is being deleted, by the response to a dry run of an Event.

        Reading namespaces needs a cluster-wide permission, which an operator of some namespaces cannot have.
        """
        body = _event(document, reason="Looking", note="is the namespace there?", is_warning=False)
        path = _path("Event", document["metadata"]["namespace"])
        try:
            await self._request("POST", path, parameters={"dryRun": "All"}, body=body)
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
        await self._delete(_path(kind, namespace, name), {"propagationPolicy": "Background", **conditions})

    async def delete_only(self, document: Document) -> None:
        """Delete only the observed object, by its uid (else 409 Conflict), and nothing that it owns.

        No error if it is gone already.
        """
        metadata = document["metadata"]
        body = {"propagationPolicy": "Orphan", "preconditions": {"uid": metadata["uid"]}}
        await self._delete(_path(document["kind"], metadata["namespace"], metadata["name"]), body)

    async def _delete(self, path: str, body: Document) -> None:
        try:
            await self._request("DELETE", path, body=body)
        except ApiError as error:
            if not error.is_missing:
                raise

    async def _apply(self, path: str, body: Document) -> Document:
        return await self._request(
            "PATCH",
            path,
            parameters={"fieldManager": FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY,
        )

    async def _request(
        self,
        method: str,
        path: str,
        *,
        parameters: dict[str, str] | None = None,
        body: Json = None,
        content_type: str = JSON,
    ) -> Document:
        return await with_retries(
            lambda: self._logged_in(method, path, parameters, body, content_type), method, content_type
        )

    async def _logged_in(
        self, method: str, path: str, parameters: dict[str, str] | None, body: Json, content_type: str
    ) -> Document:
        session = self._session
        try:
            return await self._send(method, path, parameters, body, content_type)
        except ApiError as error:
            if error.status != 401:
                raise
        except TimeoutError:
            raise
        except OSError:
            if self._session is session:
                raise
        # A service account's token is replaced every hour or so: read it again, once. Of several requests that fail
        # with the old one, the first reads it and closes their session; the others are sent again with the new one.
        if self._session is session and session is not None:
            self._open()
            await session.close()
        return await self._send(method, path, parameters, body, content_type)

    async def _send(
        self, method: str, path: str, parameters: dict[str, str] | None, body: Json, content_type: str
    ) -> Document:
        assert self._session is not None, "use the client inside `async with`"
        assert self._connection is not None, "a session has a connection"
        if method != "GET" and not self._may_write():
            raise LeadershipLostError(f"{method} {path} is not sent: this operator does not lead")
        try:
            async with self._session.request(
                method,
                self._connection.server.rstrip("/") + path,
                params=parameters,
                data=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type, "Accept": "application/json"},
            ) as response:
                parsed: Json = await _json(response)
        except TimeoutError as error:
            message = f"the API server did not respond to {method} {path} in time"
            raise TimeoutError(message) from error
        except aiohttp.ClientError as error:
            raise OSError(f"the API server did not respond to {method} {path}: {error}") from error
        if response.status >= 400:
            raise _rejection(response, parsed if isinstance(parsed, dict) else {}, path)
        if not isinstance(parsed, dict):
            raise OSError(f"the response to {method} {path} at the API server's address is not JSON")
        return parsed

    def _open(self) -> None:
        self._connection = self._login()
        self._session = aiohttp.ClientSession(
            headers=self._connection.as_http_headers(),
            connector=aiohttp.TCPConnector(ssl=self._connection.as_ssl_context()),
            timeout=aiohttp.ClientTimeout(total=self._request_timeout_s, sock_connect=_CONNECT_TIMEOUT_S),
            trace_configs=[trace(self._on_call)] if self._on_call is not None else [],
        )

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _json(response: aiohttp.ClientResponse) -> Json:
    """Return the body, an empty one as an object; None if it is not JSON, as a proxy's error page."""
    try:
        parsed: Json = await response.json(content_type=None)
    except ValueError:
        return None
    return {} if parsed is None else parsed


def _rejection(response: aiohttp.ClientResponse, status: Document, path: str) -> ApiError:
    details = status.get("details") or {}
    reason = status.get("reason") or response.reason or "Unknown"
    if any(cause.get("reason") == NAMESPACE_TERMINATING for cause in details.get("causes") or ()):
        reason = NAMESPACE_TERMINATING
    requested = response.headers.get("Retry-After") or details.get("retryAfterSeconds")
    try:
        retry_after_s = None if requested is None else max(float(requested), 0.0)
    except ValueError:
        # A date, which no API server sends, but a proxy might.
        retry_after_s = None
    return ApiError(response.status, reason, status.get("message") or path, retry_after_s=retry_after_s)


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


def _path(kind: str, namespace: str, name: str = "") -> str:
    resource = RESOURCES[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{resource.prefix}{scope}/{resource.plural}" + (f"/{name}" if name else "")
