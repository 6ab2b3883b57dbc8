"""A thin client of the Kubernetes API over aiohttp, on kopf's credentials: what the operator needs beyond kopf.

Server-side apply is the way that objects of ours are written, always by one field manager. Source: Kubernetes API
concepts, "server-side apply" and "API verbs".

What passes is tried again here, by `adapters.kubernetes.retries`.
"""

import json
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
import kopf

from ottla_operator.adapters.kubernetes.api_calls import Told, trace
from ottla_operator.adapters.kubernetes.retries import APPLY, JSON, MERGE, repeated
from ottla_operator.errors import NAMESPACE_TERMINATING, ApiError, LeadershipLostError
from ottla_operator.model.document import Document, Json

FIELD_MANAGER = "ottla-operator"

REQUEST_TIMEOUT_S = 30
_CONNECT_TIMEOUT_S = 5
_PAGE_SIZE = 500
_LISTINGS_MAX = 3
"""Of one call whose pages expire under it."""
_NOTE_SIZE_BYTES_MAX = 1_000
"""In UTF-8; the API server refuses longer notes."""


class Resource(NamedTuple):
    """Where objects of a kind live in the API."""

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

    Every method raises `ApiError` for what the server refuses, and OSError or TimeoutError when it cannot be asked.
    """

    def __init__(
        self,
        login: Callable[[], kopf.ConnectionInfo],
        *,
        told: Told | None = None,
        may_write: Callable[[], bool] = lambda: True,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        """Log in by ``login``, tell of each request, and send none that changes something unless ``may_write``."""
        self._login = login
        self._told = told
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
        """Return the object; None when there is none."""
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
        """Raise unless objects of ``kind`` can be listed: 404 where nobody knows the kind, 403 without the right."""
        await self._request("GET", _path(kind, namespace), parameters={"limit": "1"})

    async def create(self, document: Document) -> Document:
        """Make an object where there is none (else 409 AlreadyExists). A later apply drops none of its fields."""
        path = _path(document["kind"], document["metadata"]["namespace"])
        return await self._request("POST", path, parameters={"fieldManager": FIELD_MANAGER}, body=document)

    async def replace(self, document: Document) -> Document:
        """Make ``document`` the whole object, unless somebody has changed it since that was read (409 Conflict)."""
        metadata = document["metadata"]
        path = _path(document["kind"], metadata["namespace"], metadata["name"])
        return await self._request("PUT", path, parameters={"fieldManager": FIELD_MANAGER}, body=document)

    async def apply(self, document: Document) -> Document:
        """Make the fields that ``document`` names so, and drop those that an earlier apply named and this does not.

        With a ``resourceVersion`` only where the object is of that version (else 409 Conflict).
        """
        metadata = document["metadata"]
        return await self._apply(_path(document["kind"], metadata["namespace"], metadata["name"]), document)

    async def apply_status(self, document: Document, status: Document) -> Document:
        """Make ``status`` the whole status, as far as it is this operator's, and return the object.

        Only where nobody has changed the object since ``document`` was read (else 409 Conflict): what is carried out
        late does not replace what was written after it.
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

        Only where nobody has changed the object since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "/status", {}, {"status": patch})

    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        """Set the finalizers, and return the object.

        Only where nobody has changed the object since ``document`` was read (else 409 Conflict).
        """
        return await self._merge(document, "", {"finalizers": finalizers}, {})

    async def _merge(self, document: Document, subresource: str, metadata: Document, patch: Document) -> Document:
        """Merge into the object, on condition that it is of the version of ``document``."""
        found = document["metadata"]
        return await self._request(
            "PATCH",
            _path(document["kind"], found["namespace"], found["name"]) + subresource,
            parameters={"fieldManager": FIELD_MANAGER},
            body={"metadata": {"resourceVersion": found["resourceVersion"], **metadata}, **patch},
            content_type=MERGE,
        )

    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None:
        """Tell of something that happened to an object, for ``kubectl describe`` and ``kubectl events``."""
        body = _event(document, reason=reason, note=note, is_warning=is_warning)
        await self._request("POST", _path("Event", document["metadata"]["namespace"]), body=body)

    async def is_namespace_going(self, document: Document) -> bool:
        """Tell whether the namespace of an object is being deleted, by what is said to an Event that is only tried.

        To read namespaces is a right of its own, which an operator of some namespaces cannot be given.
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
        """Delete in the background, with the object's own grace period; no error when it is gone already.

        With a ``uid`` only the object that was seen (else 409 Conflict), and not one that was made instead.
        """
        conditions = {"preconditions": {"uid": uid}} if uid else {}
        await self._delete(_path(kind, namespace, name), {"propagationPolicy": "Background", **conditions})

    async def delete_only(self, document: Document) -> None:
        """Delete just the object that was seen, by its uid (else 409 Conflict), and nothing that it owns.

        No error when it is gone already.
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
        body: Document | None = None,
        content_type: str = JSON,
    ) -> Document:
        return await repeated(
            lambda: self._logged_in(method, path, parameters, body, content_type), method, content_type
        )

    async def _logged_in(
        self, method: str, path: str, parameters: dict[str, str] | None, body: Document | None, content_type: str
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
        # A service account's token is replaced every hour or so: read it again, once. Of several requests that meet
        # the old one the first does so, and the others, whose session it closes, go on with the new one.
        if self._session is session and session is not None:
            self._open()
            await session.close()
        return await self._send(method, path, parameters, body, content_type)

    async def _send(
        self, method: str, path: str, parameters: dict[str, str] | None, body: Document | None, content_type: str
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
                answer: Json = await _json(response)
        except TimeoutError as error:
            words = f"the API server did not answer {method} {path} in time"
            raise TimeoutError(words) from error
        except aiohttp.ClientError as error:
            raise OSError(f"the API server did not answer {method} {path}: {error}") from error
        if response.status >= 400:
            raise _refusal(response, answer if isinstance(answer, dict) else {}, path)
        if not isinstance(answer, dict):
            raise OSError(f"what answers at the API server's address said no JSON to {method} {path}")
        return answer

    def _open(self) -> None:
        self._connection = self._login()
        self._session = aiohttp.ClientSession(
            headers=self._connection.as_http_headers(),
            connector=aiohttp.TCPConnector(ssl=self._connection.as_ssl_context()),
            timeout=aiohttp.ClientTimeout(total=self._request_timeout_s, sock_connect=_CONNECT_TIMEOUT_S),
            trace_configs=[trace(self._told)] if self._told is not None else [],
        )

    async def _close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _json(response: aiohttp.ClientResponse) -> Json:
    """Return the body, empty as an object; None where it is no JSON, as a proxy's page is not."""
    try:
        answer: Json = await response.json(content_type=None)
    except ValueError:
        return None
    return {} if answer is None else answer


def _refusal(response: aiohttp.ClientResponse, answer: Document, path: str) -> ApiError:
    details = answer.get("details") or {}
    reason = answer.get("reason") or response.reason or "Unknown"
    if any(cause.get("reason") == NAMESPACE_TERMINATING for cause in details.get("causes") or ()):
        reason = NAMESPACE_TERMINATING
    asked = response.headers.get("Retry-After") or details.get("retryAfterSeconds")
    try:
        retry_after_s = None if asked is None else max(float(asked), 0.0)
    except ValueError:
        # A date, which no API server sends, and a proxy might.
        retry_after_s = None
    return ApiError(response.status, reason, answer.get("message") or path, retry_after_s=retry_after_s)


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
