"""A Kubernetes in memory: rejections of its API server, and its controllers, one step at a time.

The StatefulSet controller is that of Kubernetes 1.36 (pkg/controller/statefulset): in batches of 1, 2, 4, ... pods
in their order, and it stops at a pod that lacks a volume of the list.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kills import KilledError

from ottla_operator.errors import ApiError
from ottla_operator.model.quantity import compare_quantities

Document = dict[str, Any]
TIME = "2026-01-01T00:00:00Z"


@dataclass
class FakeKubernetes:
    """Objects by kind and name; ``kill_at`` is the write before or after which the operator ends."""

    can_grow: bool = True
    stored: dict[tuple[str, str], Document] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    kill_at: tuple[int, bool] | None = None
    restarts: list[str] = field(default_factory=list)
    orphaning: bool = True
    """Whether the garbage collector removes objects that were deleted without their dependents."""
    admission: Callable[[Document], ApiError | None] = lambda _: None
    """Returns why a pod or a claim is rejected."""
    machines: tuple[str, ...] = ("m-0", "m-1", "m-2")
    _uids: int = 0

    # --- the API server

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        return copy.deepcopy(self.stored.get((kind, name)))

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        key, _, value = labels.partition("=")
        found = [it for (its, _), it in sorted(self.stored.items()) if its == kind]
        return [copy.deepcopy(it) for it in found if it["metadata"]["labels"].get(key) == value]

    async def create(self, document: Document) -> Document:
        raise NotImplementedError("a cluster's objects are applied")

    async def dry_run_create(self, document: Document) -> None:
        self._admit(document)

    async def warnings_about(self, document: Document) -> list[Document]:
        return []

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        (operation,) = operations
        kind, name = document["kind"], document["metadata"]["name"]
        assert operation["path"] == "/metadata/annotations", "only marks are patched"
        marked = self.stored[kind, name]["metadata"]
        self._write(f"patch {kind}/{name}", lambda: marked.update(annotations=copy.deepcopy(operation["value"])))
        return copy.deepcopy(self.stored[kind, name])

    def _admit(self, document: Document) -> None:
        if (error := self.admission(document)) is not None:
            raise error

    async def apply(self, document: Document) -> Document:
        self._write(f"apply {document['kind']}/{document['metadata']['name']}", lambda: self._apply(document))
        return copy.deepcopy(document)

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None:
        self.restarts += [name] if kind == "Pod" else []
        self._write(f"delete {kind}/{name}", lambda: self._end(self.stored.get((kind, name))))

    async def delete_only(self, document: Document) -> None:
        kind, metadata = document["kind"], document["metadata"]
        self._write(f"delete {kind}/{metadata['name']}", lambda: self._delete_only(kind, metadata))

    def _write(self, what: str, action: Any) -> None:
        number = len(self.writes)
        self.writes.append(what)
        if self.kill_at == (number, False):
            raise KilledError
        action()
        if self.kill_at == (number, True):
            raise KilledError

    def _apply(self, document: Document) -> None:
        kind, metadata, spec = document["kind"], document["metadata"], document.get("spec", {})
        found = self.stored.get((kind, metadata["name"]))
        if metadata.get("uid", found and found["metadata"]["uid"]) != (found and found["metadata"]["uid"]):
            raise ApiError(409, "Conflict", "uid mismatch")
        if kind == "StatefulSet" and found is not None:
            assert not found["metadata"].get("deletionTimestamp"), "what is applied to it is lost"
            if found["spec"]["volumeClaimTemplates"] != spec["volumeClaimTemplates"]:
                raise ApiError(422, "Invalid", "updates to fields other than 'replicas' are forbidden")
        if kind == "PersistentVolumeClaim":
            assert found is not None, "claims are created by StatefulSets"
            self._resize(found, spec["resources"]["requests"]["storage"])
            found["metadata"]["ownerReferences"] = copy.deepcopy(metadata.get("ownerReferences", []))
        elif kind == "Pod":
            assert found is not None, "pods are created by StatefulSets"
            found["metadata"].setdefault("annotations", {}).update(metadata["annotations"])
        else:
            self._uids += 0 if found else 1
            uid = found["metadata"]["uid"] if found else f"uid-{self._uids}"
            self.stored[kind, metadata["name"]] = copy.deepcopy({**document, "metadata": {**metadata, "uid": uid}})

    def _resize(self, claim: Document, size: str) -> None:
        order = compare_quantities(size, claim["spec"]["resources"]["requests"]["storage"])
        if order < 0:
            raise ApiError(422, "Invalid", "field can not be less than status.capacity")
        if order > 0 and not self.can_grow:
            raise ApiError(403, "Forbidden", "only dynamically provisioned pvc can be resized")
        claim["spec"]["resources"]["requests"]["storage"] = size

    def _delete_only(self, kind: str, metadata: Document) -> None:
        found = self.stored.get((kind, metadata["name"]))
        if found is None:
            return
        if found["metadata"]["uid"] != metadata["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition does not match")
        self._end(found)

    @staticmethod
    def _end(found: Document | None) -> None:
        if found is not None:
            found["metadata"]["deletionTimestamp"] = TIME

    # --- the controllers

    def tick(self) -> None:
        """Let every controller take one step."""
        for key, it in list(self.stored.items()):
            if it["metadata"].get("deletionTimestamp") and (key[0] == "Pod" or self.orphaning):
                del self.stored[key]
        for (kind, _), it in sorted(self.stored.items()):
            if kind == "StatefulSet" and not it["metadata"].get("deletionTimestamp"):
                self._make_pods(it)
        for (kind, name), it in self.stored.items():
            if kind == "Pod":
                self._run(it, name)
            if kind == "PersistentVolumeClaim":
                size = it["spec"]["resources"]["requests"]["storage"]
                it["status"] = {"phase": "Bound", "capacity": {"storage": size}}

    def _make_pods(self, stateful_set: Document) -> None:
        replicas, done, batch = stateful_set["spec"]["replicas"], 0, 1
        while done < replicas:
            last = min(done + batch, replicas)
            if not all([self._process(stateful_set, ordinal) for ordinal in range(done, last)]):
                return
            done, batch = last, batch * 2

    def _process(self, stateful_set: Document, ordinal: int) -> bool:
        spec, name = stateful_set["spec"], f"{stateful_set['metadata']['name']}-{ordinal}"
        claims = {it["metadata"]["name"]: it for it in spec["volumeClaimTemplates"]}
        for template_name, template in claims.items():
            key = ("PersistentVolumeClaim", f"{template_name}-{name}")
            if key not in self.stored and not self._create("PersistentVolumeClaim", key[1], template):
                return False
        pod = self.stored.get(("Pod", name))
        if pod is None:
            pod = self._new("Pod", name, copy.deepcopy(spec["template"]))
            pod["spec"]["volumes"] += [
                {"name": it, "persistentVolumeClaim": {"claimName": f"{it}-{name}"}} for it in claims
            ]
            if self.admission(pod) is not None:
                return False
            self.stored["Pod", name] = pod
        return claims.keys() <= {it["name"] for it in pod["spec"]["volumes"]}

    def _create(self, kind: str, name: str, template: Document) -> bool:
        document = self._new(kind, name, copy.deepcopy(template))
        if self.admission(document) is not None:
            return False
        self.stored[kind, name] = document
        return True

    def _new(self, kind: str, name: str, template: Document) -> Document:
        self._uids += 1
        metadata = {**template["metadata"], "name": name, "namespace": "kafka", "uid": f"uid-{self._uids}"}
        return {"kind": kind, "metadata": metadata, "spec": template["spec"], "status": {}}

    def _run(self, pod: Document, name: str) -> None:
        pod["spec"].setdefault("nodeName", self.machines[int(name.rpartition("-")[2]) % len(self.machines)])
        waits = any(it["name"] == "rack" for it in pod["spec"]["initContainers"])
        has_rack = "ottla.dev/rack" in pod["metadata"].get("annotations", {})
        # It becomes ready one step later.
        is_ready = (not waits or has_rack) and bool(pod["status"])
        pod["status"] = {"conditions": [{"type": "Ready", "status": str(is_ready)}]}

    # --- accessors for tests

    def uids(self, kind: str) -> dict[str, str]:
        return {name: it["metadata"]["uid"] for (its, name), it in self.stored.items() if its == kind}

    def sizes(self) -> dict[str, str]:
        return {
            name: it["spec"]["resources"]["requests"]["storage"]
            for (its, name), it in self.stored.items()
            if its == "PersistentVolumeClaim"
        }

    def disks(self) -> dict[str, list[str]]:
        """Return the disks of each pod."""
        return {
            name: [volume["name"] for volume in it["spec"]["volumes"] if "persistentVolumeClaim" in volume]
            for (its, name), it in self.stored.items()
            if its == "Pod"
        }
