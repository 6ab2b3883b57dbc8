"""A small HTTP double of the Kubernetes API, for benchmarks of the operator: ``-m benchmarks.kubernetes_double PORT``.

It keeps objects in memory, streams their changes to watches, handles server-side applies as one field manager's, and
creates pods of StatefulSets that are ready at once. It counts every request by verb and kind, and needs ``--write-ms``
for each write, as a server does that keeps them on a disk.
"""

import argparse
import asyncio
import itertools
import json
from collections import Counter, defaultdict
from typing import Any

from aiohttp import web

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""

KINDS = {
    ("ottla.dev", "v1"): {"clusters": "Cluster", "topics": "Topic", "users": "User"},
    ("apps", "v1"): {"statefulsets": "StatefulSet"},
    ("events.k8s.io", "v1"): {"events": "Event"},
    ("coordination.k8s.io", "v1"): {"leases": "Lease"},
    ("policy", "v1"): {"poddisruptionbudgets": "PodDisruptionBudget"},
    ("networking.k8s.io", "v1"): {"networkpolicies": "NetworkPolicy"},
    ("", "v1"): {
        "services": "Service",
        "configmaps": "ConfigMap",
        "secrets": "Secret",
        "pods": "Pod",
        "nodes": "Node",
        "namespaces": "Namespace",
        "serviceaccounts": "ServiceAccount",
        "persistentvolumeclaims": "PersistentVolumeClaim",
    },
}
VERBS = ["get", "list", "watch", "create", "patch", "delete"]


class Double:
    """The objects, and their watches."""

    def __init__(self, write_s: float) -> None:
        self._write_s = write_s
        self._objects: dict[Key, Document] = {}
        self._versions = itertools.count(1)
        self._version = 0
        self._history: list[tuple[int, str, Document]] = []
        self._news = asyncio.Event()
        self.counts: Counter[str] = Counter()

    def application(self) -> web.Application:
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_get("/version", lambda _: _respond({"major": "1", "minor": "33"}))
        application.router.add_get("/api", lambda _: _respond({"versions": ["v1"]}))
        application.router.add_get("/apis", lambda _: _respond({"groups": _groups()}))
        application.router.add_get("/api/v1", lambda _: _respond(_resources("", "v1")))
        application.router.add_get(r"/apis/{group}/{version}", self._discover)
        application.router.add_post("/bench/objects", self._put)
        application.router.add_get("/bench/figures", self._figures)
        for prefix in ("/api/v1", "/apis/{group}/{version}"):
            for scope in ("", "/namespaces/{namespace}"):
                application.router.add_route("*", f"{prefix}{scope}/{{plural}}", self._collection)
                application.router.add_route("*", f"{prefix}{scope}/{{plural}}/{{name}}", self._object)
                application.router.add_route("*", f"{prefix}{scope}/{{plural}}/{{name}}/status", self._object)
        return application

    # --- called by the benchmark

    async def _put(self, request: web.Request) -> web.Response:
        for document in await request.json():
            self._store(_plural(document["kind"]), document)
        return await _respond({})

    async def _figures(self, _: web.Request) -> web.Response:
        ready: Counter[str] = Counter()
        for (plural, _namespace, _name), document in self._objects.items():
            conditions = document.get("status", {}).get("conditions", [])
            ready[plural] += any(it["type"] == "Ready" and it["status"] == "True" for it in conditions)
        return await _respond({"counts": self.counts, "ready": ready})

    # --- called by the operator

    async def _discover(self, request: web.Request) -> web.Response:
        group, version = request.match_info["group"], request.match_info["version"]
        return await _respond(_resources(group, version))

    async def _collection(self, request: web.Request) -> web.StreamResponse:
        plural, namespace = request.match_info["plural"], request.match_info.get("namespace", "")
        if request.method == "POST":
            return await self._create(plural, namespace, await request.json())
        if request.query.get("watch") == "true":
            return await self._watch(request, plural, namespace)
        self.counts[f"list {plural}"] += 1
        selector = request.query.get("labelSelector", "")
        items = [
            it
            for (kind, where, _), it in self._objects.items()
            if kind == plural and namespace in ("", where) and _selected(it, selector)
        ]
        info = request.match_info
        version = f"{info['group']}/{info['version']}" if "group" in info else "v1"
        found = {"apiVersion": version, "items": items, "metadata": {"resourceVersion": str(self._version)}}
        return await _respond(found)

    async def _create(self, plural: str, namespace: str, document: Document) -> web.Response:
        await self._take_time(f"create {plural}")
        if plural == "events":
            return await _respond(document)
        document["metadata"]["namespace"] = namespace
        if (plural, namespace, document["metadata"]["name"]) in self._objects:
            return await _reject(409, "AlreadyExists")
        return await _respond(self._store(plural, document))

    async def _object(self, request: web.Request) -> web.Response:
        key = request.match_info["plural"], request.match_info.get("namespace", ""), request.match_info["name"]
        known = self._objects.get(key)
        if request.method == "GET":
            self.counts[f"get {key[0]}"] += 1
            return await _reject(404, "NotFound") if known is None else await _respond(known)
        is_status = request.path.endswith("/status")
        await self._take_time(f"{request.method.lower()} {key[0]}{'/status' if is_status else ''}")
        known = self._objects.get(key)
        if request.method == "DELETE":
            if known is not None:
                self._remove(key)
            return await _respond({})
        body = json.loads(await request.text())
        wanted = body["metadata"].get("resourceVersion")
        if known is not None and wanted not in (None, known["metadata"]["resourceVersion"]):
            return await _reject(409, "Conflict")
        body["metadata"].pop("resourceVersion", None)
        if is_status:
            assert known is not None, "an object has a status when it is there"
            return await _respond(self._store(key[0], {**known, "status": body["status"]}))
        merged = {**(known or {}), **body, "metadata": {**(known or {}).get("metadata", {}), **body["metadata"]}}
        return await _respond(self._store(key[0], merged))

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        self.counts[f"watch {plural}"] += 1
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        since, selector = int(request.query.get("resourceVersion") or 0), request.query.get("labelSelector", "")
        position = 0
        while True:
            news = self._news
            while position < len(self._history):
                version, what, document = self._history[position]
                position += 1
                is_meant = _plural(document["kind"]) == plural and namespace in ("", document["metadata"]["namespace"])
                if version > since and is_meant and _selected(document, selector):
                    await response.write(json.dumps({"type": what, "object": document}).encode() + b"\n")
            await news.wait()

    # --- inside

    async def _take_time(self, what: str) -> None:
        self.counts[what] += 1
        self.counts["writes"] += 1
        if self._write_s:
            await asyncio.sleep(self._write_s)

    def _store(self, plural: str, document: Document) -> Document:
        key = plural, document["metadata"].get("namespace", ""), document["metadata"]["name"]
        known = self._objects.get(key)
        if known is not None and {**known, **document} == known:
            return known
        self._version = next(self._versions)
        document["metadata"] = {
            "uid": f"uid-{plural}-{key[2]}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **document["metadata"],
            "resourceVersion": str(self._version),
        }
        self._objects[key] = document
        self._tell("MODIFIED" if known else "ADDED", document)
        if plural == "statefulsets":
            self._make_pods(document)
        return document

    def _remove(self, key: Key) -> None:
        self._version = next(self._versions)
        self._tell("DELETED", self._objects.pop(key))

    def _tell(self, what: str, document: Document) -> None:
        self._history.append((self._version, what, document))
        self._news.set()
        self._news = asyncio.Event()

    def _make_pods(self, stateful_set: Document) -> None:
        template, owner = stateful_set["spec"]["template"]["metadata"], stateful_set["metadata"]
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for ordinal in range(stateful_set["spec"]["replicas"]):
            metadata = {**template, "name": f"{owner['name']}-{ordinal}", "namespace": owner["namespace"]}
            self._store("pods", {"kind": "Pod", "metadata": metadata, "status": {"conditions": [ready]}})


def _plural(kind: str) -> str:
    return next(plural for names in KINDS.values() for plural, known in names.items() if known == kind)


def _groups() -> list[Document]:
    groups = defaultdict(list)
    for group, version in KINDS:
        if group:
            groups[group].append({"groupVersion": f"{group}/{version}", "version": version})
    return [{"name": name, "versions": versions, "preferredVersion": versions[0]} for name, versions in groups.items()]


def _resources(group: str, version: str) -> Document:
    names = KINDS.get((group, version), {})
    return {
        "resources": [
            {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": True, "verbs": VERBS}
            for plural, kind in names.items()
        ]
    }


def _selected(document: Document, selector: str) -> bool:
    labels = document["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, _, value = term.partition("=")
        if key not in labels or (value and labels[key] != value):
            return False
    return True


async def _respond(body: Document) -> web.Response:
    return web.Response(text=json.dumps(body), content_type="application/json")


async def _reject(status: int, reason: str) -> web.Response:
    return web.Response(
        status=status,
        text=json.dumps({"kind": "Status", "status": "Failure", "reason": reason, "message": reason, "code": status}),
        content_type="application/json",
    )


def main() -> None:
    """Serve until the process is ended."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("port", type=int)
    options.add_argument("--write-ms", type=float, default=3.0)
    given = options.parse_args()
    application = Double(given.write_ms / 1000).application()
    web.run_app(application, host="127.0.0.1", port=given.port, print=None, access_log=None, shutdown_timeout=1)


if __name__ == "__main__":
    main()
