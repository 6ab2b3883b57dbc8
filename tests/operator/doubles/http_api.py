"""An API server over real HTTP, in memory: discovery, lists, watches with bookmarks, writes by version; and faults.

Stored objects are not validated against a schema. Faults apply in order to the requests that match them.
"""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

Document = dict[str, Any]

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
KINDS = {
    "clusters": ("/apis/ottla.dev/v1", "Cluster"),
    "topics": ("/apis/ottla.dev/v1", "Topic"),
    "users": ("/apis/ottla.dev/v1", "User"),
    "statefulsets": ("/apis/apps/v1", "StatefulSet"),
    "leases": ("/apis/coordination.k8s.io/v1", "Lease"),
    "secrets": ("/api/v1", "Secret"),
    "services": ("/api/v1", "Service"),
    "serviceaccounts": ("/api/v1", "ServiceAccount"),
    "networkpolicies": ("/apis/networking.k8s.io/v1", "NetworkPolicy"),
    "poddisruptionbudgets": ("/apis/policy/v1", "PodDisruptionBudget"),
    "configmaps": ("/api/v1", "ConfigMap"),
    "pods": ("/api/v1", "Pod"),
    "persistentvolumeclaims": ("/api/v1", "PersistentVolumeClaim"),
    "events": ("/apis/events.k8s.io/v1", "Event"),
    "namespaces": ("/api/v1", "Namespace"),
    "customresourcedefinitions": ("/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition"),
}


@dataclass
class Fault:
    """A fault of the next ``times`` requests of ``method`` whose path and query contain ``where``.

    ``status`` with ``body``; else ``cut``: the connection ends within the response; else ``hang``: no response.
    ``done``: the request is executed all the same, so that only its response is lost.
    """

    method: str = ""
    where: str = ""
    times: int = 1
    status: int = 0
    body: Document = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    hang: bool = False
    done: bool = False

    def is_for(self, request: web.Request) -> bool:
        return self.times > 0 and self.method in ("", request.method) and self.where in request.path_qs


class HttpApi:
    """The server; ``async with api.serving()`` gives its address."""

    def __init__(self) -> None:
        self.stored: dict[tuple[str, str, str], Document] = {}
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.missing: set[str] = set()
        """Plurals whose CRD is not installed."""
        self.terminating: set[str] = set()
        """Terminating namespaces."""
        self.valid_tokens: set[str] | None = None
        self.address = ""
        self._version = 0
        self._events: list[tuple[int, str, Document]] = []
        self._watchers: list[tuple[str, str, asyncio.Queue[Document | None]]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield self.address
        finally:
            self.end_watches()
            await runner.cleanup()

    def put(self, plural: str, document: Document) -> Document:
        """Store an object as if a client had applied it."""
        metadata = document["metadata"]
        key = plural, metadata.get("namespace", ""), metadata["name"]
        is_new = key not in self.stored
        self._version += 1
        before = self.stored.get(key, {"metadata": {}})["metadata"]
        known = {"uid": f"uid-{metadata['name']}-{self._version}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        known |= {name: before[name] for name in ("uid", "creationTimestamp") if name in before}
        document = copy.deepcopy(document)
        document["metadata"] = {"generation": 1, **known, **metadata, "resourceVersion": str(self._version)}
        self.stored[key] = document
        self._publish(plural, "ADDED" if is_new else "MODIFIED", document)
        return document

    def remove(self, plural: str, namespace: str, name: str) -> None:
        document = self.stored.pop((plural, namespace, name), None)
        if document is not None:
            self._version += 1
            self._publish(plural, "DELETED", document)

    def end_watches(self) -> None:
        """Let the server end every open watch."""
        for _, _, queue in self._watchers:
            queue.put_nowait(None)

    def send_to_watches(self, event: Document) -> None:
        """Send an event such as an ERROR to every open watch."""
        for _, _, queue in self._watchers:
            queue.put_nowait(event)

    @property
    def open_watches(self) -> set[str]:
        return {plural for plural, _, _ in self._watchers}

    def count(self, method: str, where: str) -> int:
        return sum(it.startswith(f"{method} ") and where in it for it in self.requests)

    def _publish(self, plural: str, kind: str, document: Document) -> None:
        document = {**copy.deepcopy(document), "metadata": {**document["metadata"]}}
        document["metadata"]["resourceVersion"] = str(self._version)
        event = {"type": kind, "object": document}
        self._events.append((self._version, plural, event))
        for watched, namespace, queue in self._watchers:
            if watched == plural and namespace in ("", document["metadata"].get("namespace", "")):
                queue.put_nowait(event)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.valid_tokens is not None and token not in self.valid_tokens:
            return _status(401, "Unauthorized")
        fault = next((it for it in self.faults if it.is_for(request)), None)
        if fault is None:
            return await self._respond(request)
        fault.times -= 1
        if fault.done:
            await self._respond(request)
        if fault.status:
            return web.json_response(fault.body, status=fault.status, headers=fault.headers)
        if fault.cut:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"metadata":')
            assert request.transport is not None
            request.transport.abort()
            return response
        await asyncio.sleep(3600)
        raise AssertionError("no test waits for so long")

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if (found := self._discovery(request.path)) is not None:
            return web.json_response(found)
        parts = request.path.strip("/").split("/")
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        plural, name, *sub = [*rest, ""] if len(rest) == 1 else rest
        if plural in self.missing or plural not in KINDS:
            return _status(404, "NotFound", "404 page not found")
        if request.method == "GET" and not name:
            if "watch" in request.query:
                return await self._watch(request, plural, namespace)
            return self._list(plural, namespace)
        body = await request.json() if request.method != "GET" else {}
        return self._object(request, (plural, namespace, name), sub, body)

    def _object(
        self, request: web.Request, key: tuple[str, str, str], sub: list[str], body: Document
    ) -> web.StreamResponse:
        plural, namespace, _ = key
        present = self.stored.get(key)
        match request.method:
            case "POST":
                if namespace in self.terminating:
                    return terminating(plural, namespace)
                body["metadata"].setdefault("name", f"{body['metadata'].get('generateName', '')}{self._version}")
                body["metadata"].setdefault("namespace", namespace)
                if (plural, namespace, body["metadata"]["name"]) in self.stored:
                    return _status(409, "AlreadyExists")
                return web.json_response(self.put(plural, body), status=201)
            case "PATCH" if "apply" in request.content_type and present is None and not sub:
                if namespace in self.terminating:
                    return terminating(plural, namespace)
                return web.json_response(self.put(plural, body), status=201)
            case _ if present is None:
                return _status(404, "NotFound")
            case "GET":
                return web.json_response(present)
            case "DELETE":
                self.remove(*key)
                return web.json_response({"status": "Success"})
        wanted = body.get("metadata", {}).get("resourceVersion", present["metadata"]["resourceVersion"])
        if wanted != present["metadata"]["resourceVersion"]:
            return _status(409, "Conflict")
        return web.json_response(self.put(plural, self._changed(request, present, sub, body)))

    def _changed(self, request: web.Request, present: Document, sub: list[str], body: Document) -> Document:
        if sub == ["status"]:
            return {**present, "status": body["status"]}
        if "merge-patch" in request.content_type:
            return {**present, "metadata": {**present["metadata"], **body["metadata"]}}
        return {**present, **body, "metadata": {**present["metadata"], **body["metadata"]}}

    def _list(self, plural: str, namespace: str) -> web.Response:
        # As the real server: items of a list come without kind and version.
        items = [
            {name: value for name, value in it.items() if name not in ("apiVersion", "kind")}
            for (kind, where, _), it in sorted(self.stored.items())
            if kind == plural and namespace in ("", where)
        ]
        prefix, kind = KINDS[plural]
        return web.json_response(
            {
                "apiVersion": prefix.removeprefix("/apis/").removeprefix("/api/"),
                "kind": f"{kind}List",
                "metadata": {"resourceVersion": str(self._version)},
                "items": items,
            }
        )

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        response = web.StreamResponse()
        queue: asyncio.Queue[Document | None] = asyncio.Queue()
        since = int(request.query.get("resourceVersion", self._version))
        for version, changed, event in self._events:
            if version > since and changed == plural:
                queue.put_nowait(event)
        watcher = plural, namespace, queue
        self._watchers.append(watcher)
        try:
            with suppress(ConnectionError):
                await response.prepare(request)
                while (event := await queue.get()) is not None:
                    await response.write(json.dumps(event).encode() + b"\n")
                await response.write_eof()
        finally:
            self._watchers.remove(watcher)
        return response

    def _discovery(self, path: str) -> Document | None:
        match path:
            case "/api":
                return {"versions": ["v1"]}
            case "/apis":
                found = sorted({tuple(prefix.split("/")[2:]) for prefix, _ in KINDS.values() if "/apis/" in prefix})
                return {
                    "groups": [
                        {"name": group, "versions": [{"version": it}], "preferredVersion": {"version": it}}
                        for group, it in found
                    ]
                }
        resources = [
            {"name": plural, "kind": kind, "singularName": kind.lower(), "namespaced": True, "verbs": VERBS}
            for plural, (prefix, kind) in KINDS.items()
            if prefix == path and plural not in self.missing
        ]
        return {"resources": resources} if resources else None


def credentials(address: str, token: str = "") -> Callable[[], Awaitable[Configuration]]:
    """Return a loader of the credentials of a server at ``address``."""

    async def load() -> Configuration:
        return Configuration(host=address, api_key={"BearerToken": f"Bearer {token}"} if token else {})

    return load


def terminating(plural: str, namespace: str) -> web.Response:
    """Return the API server's rejection of a creation in a terminating namespace."""
    message = f"{plural} is forbidden: unable to create new content in namespace {namespace}: it is being terminated"
    causes = [{"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}]
    return web.json_response({"reason": "Forbidden", "message": message, "details": {"causes": causes}}, status=403)


def _status(code: int, reason: str, message: str = "because") -> web.Response:
    return web.json_response({"kind": "Status", "reason": reason, "message": message, "code": code}, status=code)


async def until(claim: Callable[[], object], *, within_s: float = 30.0) -> None:
    """Wait until ``claim`` holds."""
    async with asyncio.timeout(within_s):
        while not claim():  # noqa: ASYNC110 - a claim about any state, without an event
            await asyncio.sleep(0.01)
