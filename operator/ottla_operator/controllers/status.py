"""Writing the status of objects, only when it says something new."""

from collections.abc import Callable
from typing import Protocol

from ottla_operator.controllers.result import ReconcileResult, status
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Accepted
from ottla_operator.model.document import Document
from ottla_operator.ports.object_store import ObjectStore
from ottla_operator.runtime.cluster_ownership import OWNERSHIP_FIELD, OwnershipClaim

_TRIES_MAX = 4
"""Of one status, while somebody else changes the object."""


class StatusStore(ObjectStore, Protocol):
    """The calls of `adapters.kubernetes.api.KubernetesApi` that the controller makes besides its hosts."""

    async def apply_status(self, document: Document, status: Document) -> Document: ...
    async def patch_status(self, document: Document, patch: Document) -> Document: ...
    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document: ...
    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None: ...
    async def is_namespace_going(self, document: Document) -> bool: ...


class StatusWriter:
    """Writes statuses to ``api``; ``now`` tells the time as RFC 3339; ``told`` hears what an object's status is now.

    All but the claim of a Cluster, into which other operators write as well: that is kept as it is there.

    A status replaces only the one that it was made from: what the API server carries out after the operator has given
    it up replaces nothing newer, and a record that was written before a step stays. Every method raises `ApiError` of
    a conflict where the object says something else by now; it has to be read again then. ``document`` is made what was
    stored, so that the next write of a pass knows of this one.
    """

    def __init__(self, api: StatusStore, now: Callable[[], str], *, told: Callable[[Document, Document], None]) -> None:
        self._api = api
        self._now = now
        self._told = told

    async def accept(self, document: Document) -> None:
        """Give a new object its conditions at once: waiting without any looks like being forgotten."""
        if not document.get("status", {}).get("conditions"):
            await self._apply(document, status(document, ReconcileResult(Accepted(), {}), now=self._now()))

    async def keep(self, document: Document, facts: Document) -> None:
        """Write ``facts``, of which an operator that is killed after the next step must know."""
        before = document.get("status", {})
        if not before.get("conditions"):
            before = status(document, ReconcileResult(Accepted(), {}), now=self._now())
        await self._apply(document, {**before, **facts})

    async def write(self, document: Document, outcome: ReconcileResult) -> bool:
        """Write the status that ``outcome`` leads to, unless it is there already; True when it was written."""
        new = status(document, outcome, now=self._now())
        self._told(document, new)
        if new == document.get("status"):
            return False
        await self._apply(document, new)
        return True

    async def _apply(self, document: Document, new: Document) -> None:
        wanted = _said({"status": new})
        for tried in range(1, _TRIES_MAX + 1):
            is_done = True
            try:
                stored = await self._api.apply_status(document, wanted)
            except ApiError as error:
                if not error.is_conflict or tried == _TRIES_MAX:
                    raise
                there = await self._there(document)
                if there is None or _said(there) not in (wanted, _said(document)):
                    raise
                # Where it was done the answer was lost.
                stored, is_done = there, _said(there) == wanted
            document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            document["status"] = stored.get("status", {})
            if is_done:
                return

    async def _there(self, document: Document) -> Document | None:
        """Return the object as it is now; None where it is not for this pass to say how it is."""
        metadata = document["metadata"]
        there = await self._api.get(document["kind"], metadata.get("namespace", ""), metadata["name"])
        return there if there is not None and _whose(there) == _whose(document) else None


def _said(document: Document) -> Document:
    """Return the status without the claim."""
    return {key: value for key, value in document.get("status", {}).items() if key != OWNERSHIP_FIELD}


def _whose(document: Document) -> tuple[str, str, list[str]]:
    """Return what must not have changed while a status is made: which object, whose, and what keeps it."""
    metadata = document["metadata"]
    return metadata["uid"], OwnershipClaim.of(document).name, metadata.get("finalizers", [])
