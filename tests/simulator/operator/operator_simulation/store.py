"""The API server of a simulation: objects and their statuses, which outlive every operator."""

import copy
from collections.abc import Callable

from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import ready_condition
from ottla_operator.model.document import KINDS, Document
from ottla_operator.model.manifest import ObjectKey
from ottla_operator.runtime.cluster_ownership import OWNERSHIP_FIELD


class Store:
    """Objects by kind and name; operators call it by `operator_simulation.api`.

    ``on_status`` is called with each status that is new, ``on_claim`` with each Cluster that an operator has claimed or
    asks for, ``on_gone`` with each object that goes.
    """

    def __init__(
        self,
        on_status: Callable[[Document], object],
        on_claim: Callable[[Document], object],
        on_gone: Callable[[Document], object],
    ) -> None:
        self._objects: dict[ObjectKey, Document] = {}
        self._owned: dict[ObjectKey, Document] = {}
        self._on_status = on_status
        self._on_claim = on_claim
        self._on_gone = on_gone
        self._created = 0
        self._writes = 0

    # --- actions of users

    def put(self, document: Document) -> Document:
        """Create the object, or change its spec; return it as stored."""
        key = _key(document)
        known = self._objects.get(key)
        if known is None:
            self._created += 1
            known = self._objects[key] = copy.deepcopy(document)
            known["metadata"] |= {
                "uid": f"uid-{key.name}",
                "generation": 1,
                "creationTimestamp": f"2026-01-01T00:00:{self._created:02}Z",
            }
        elif known["spec"] != document["spec"]:
            known["spec"] = copy.deepcopy(document["spec"])
            known["metadata"]["generation"] += 1
        self._version(known)
        return copy.deepcopy(known)

    def ask_to_go(self, kind: str, name: str) -> Document:
        """Start the deletion of an object, which ends when no finalizer is left; return it as stored."""
        known = self._objects[ObjectKey(kind, "", name)]
        known["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        self._version(known)
        self._collect(known)
        return copy.deepcopy(known)

    def secret(self, name: str) -> Document | None:
        """Return a Secret that the operator wrote."""
        return self._owned.get(ObjectKey("Secret", "", name))

    def all(self) -> list[Document]:
        return [it for kind in KINDS for key, it in self._objects.items() if key.kind == kind]

    def is_settled(self) -> bool:
        """Tell whether every object is Ready with its latest spec, and no Cluster has an unfinished plan."""
        return all(
            (ready := ready_condition(document)) is not None
            and ready["status"] == "True"
            and ready["reason"] != "Rebalancing"
            and "deletionTimestamp" not in document["metadata"]
            and ready["observedGeneration"] == document["metadata"]["generation"]
            for document in self._objects.values()
        )

    def cluster_says(self, reason: str) -> bool:
        """Tell whether some Cluster has ``reason`` in its condition Ready, for its latest spec."""
        return any(
            (ready := ready_condition(document)) is not None
            and ready["reason"] == reason
            and ready["observedGeneration"] == document["metadata"]["generation"]
            for key, document in self._objects.items()
            if key.kind == "Cluster"
        )

    def describe(self) -> str:
        """Describe the state of every object."""
        said = []
        for document in self.all():
            ready = ready_condition(document) or {"status": "Unknown", "reason": "", "message": ""}
            said.append(f"{document['metadata']['name']}: {ready['status']} {ready['reason']}: {ready['message']}")
        return "; ".join(said)

    # --- calls of operators, through `SimulatedApi`

    def get(self, kind: str, name: str) -> Document | None:
        key = ObjectKey(kind, "", name)
        return copy.deepcopy(self._objects.get(key) or self._owned.get(key))

    def objects(self, kind: str) -> list[Document]:
        return [copy.deepcopy(it) for key, it in self._objects.items() if key.kind == kind]

    def create(self, document: Document) -> Document:
        """Create an object that a user's object owns: a Secret, if there is none."""
        if _key(document) in self._owned:
            raise ApiError(409, "AlreadyExists", "it is there already")
        return self._write(document)

    def apply(self, document: Document) -> Document:
        """Write an object that a user's object owns, if it has the version of ``document``."""
        known = self._owned.get(_key(document))
        version = None if known is None else known["metadata"]["resourceVersion"]
        if document["metadata"].get("resourceVersion", version) != version:
            raise ApiError(409, "Conflict", f"it is of version {version}")
        return self._write(document)

    def delete(self, kind: str, name: str) -> None:
        self._owned.pop(ObjectKey(kind, "", name), None)

    def apply_status(self, document: Document, status: Document) -> Document:
        """Write the status, if the object has the version of ``document``."""
        known = self._known_as(document)
        # Merged fields have another manager, and stay.
        claim = {key: it for key, it in known.get("status", {}).items() if key == OWNERSHIP_FIELD}
        known["status"] = claim | copy.deepcopy(status)
        self._version(known)
        self._on_status(known)
        return copy.deepcopy(known)

    def patch_status(self, document: Document, patch: Document) -> Document:
        """Merge into the status, if the object has the version of ``document``."""
        known = self._known_as(document)
        merged = {key: {name: it for name, it in part.items() if it is not None} for key, part in patch.items()}
        known["status"] = {**known.get("status", {}), **merged}
        self._version(known)
        self._on_claim(copy.deepcopy(known))
        return copy.deepcopy(known)

    def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        """Set them, if the object has the version of ``document``."""
        known = self._known_as(document)
        known["metadata"]["finalizers"] = list(finalizers)
        self._version(known)
        self._collect(known)
        return copy.deepcopy(known)

    def _known_as(self, document: Document) -> Document:
        """Return the object, if it has the version of ``document``."""
        known = self._objects.get(_key(document))
        if known is None:
            raise ApiError(404, "NotFound", "it is not there any more")
        if known["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "it has changed")
        return known

    def _write(self, document: Document) -> Document:
        written = copy.deepcopy(document)
        self._version(written)
        self._owned[_key(document)] = written
        return copy.deepcopy(written)

    def _version(self, document: Document) -> None:
        self._writes += 1
        document["metadata"]["resourceVersion"] = str(self._writes)

    def _collect(self, known: Document) -> None:
        metadata = known["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self._objects[_key(known)]
            owned = [key for key, it in self._owned.items() if metadata["uid"] in _owners(it)]
            for key in owned:
                del self._owned[key]
            self._on_gone(known)


def _key(document: Document) -> ObjectKey:
    return ObjectKey(document["kind"], "", document["metadata"]["name"])


def _owners(document: Document) -> list[str]:
    return [it["uid"] for it in document["metadata"].get("ownerReferences", ())]
