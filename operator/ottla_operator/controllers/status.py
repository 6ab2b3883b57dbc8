"""Writes the status of objects, only if it has changed."""

from collections.abc import Callable
from typing import Protocol

from ottla_operator.controllers.result import ReconcileResult, status
from ottla_operator.errors import ApiError
from ottla_operator.model.conditions import Accepted
from ottla_operator.model.document import Document
from ottla_operator.ports.object_store import ObjectStore
from ottla_operator.runtime.cluster_ownership import OWNERSHIP_FIELD, OwnershipClaim

_TRIES_MAX = 4
"""Attempts for one status, while other clients change the object."""


class StatusStore(ObjectStore, Protocol):
    """The calls of `adapters.kubernetes.api.KubernetesApi` that controllers use besides those of hosts."""

    async def apply_status(self, document: Document, status: Document) -> Document: ...
    async def patch_status(self, document: Document, patch: Document) -> Document: ...
    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document: ...
    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None: ...
    async def is_namespace_terminating(self, document: Document) -> bool: ...


class StatusWriter:
    """Writes statuses to ``api``; ``now`` returns the time as RFC 3339; ``on_status`` receives each new status.

    The claim of a Cluster is left out, because other operators write it as well: it stays as stored.

    A status replaces only the version that it was computed from: a write that the API server executes late, after the
    operator gave it up, replaces nothing newer, and a record that was written before a step stays. Every method raises
    `ApiError` of a conflict if the object has changed otherwise; it has to be read again then. ``document`` is updated
    to the stored object, so that the next write of the same reconciliation follows it.
    """

    def __init__(
        self, api: StatusStore, now: Callable[[], str], *, on_status: Callable[[Document, Document], None]
    ) -> None:
        self._api = api
        self._now = now
        self._on_status = on_status

    async def accept(self, document: Document) -> None:
        """Give a new object its conditions at once: an object without any looks unnoticed."""
        if not document.get("status", {}).get("conditions"):
            await self._apply(document, status(document, ReconcileResult(Accepted(), {}), now=self._now()))

    async def keep(self, document: Document, facts: Document) -> None:
        """Write ``facts``, which an operator needs if this one is killed after the next step."""
        before = document.get("status", {})
        if not before.get("conditions"):
            before = status(document, ReconcileResult(Accepted(), {}), now=self._now())
        await self._apply(document, {**before, **facts})

    async def write(self, document: Document, outcome: ReconcileResult) -> bool:
        """Write the status of ``outcome``, unless it is stored already; True if it was written."""
        new = status(document, outcome, now=self._now())
        self._on_status(document, new)
        if new == document.get("status"):
            return False
        await self._apply(document, new)
        return True

    async def _apply(self, document: Document, new: Document) -> None:
        wanted = _status_fields({"status": new})
        for tried in range(1, _TRIES_MAX + 1):
            is_done = True
            try:
                stored = await self._api.apply_status(document, wanted)
            except ApiError as error:
                if not error.is_conflict or tried == _TRIES_MAX:
                    raise
                there = await self._read_again(document)
                if there is None or _status_fields(there) not in (wanted, _status_fields(document)):
                    raise
                # If the status is stored, the response to the write was lost.
                stored, is_done = there, _status_fields(there) == wanted
            document["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            document["status"] = stored.get("status", {})
            if is_done:
                return

    async def _read_again(self, document: Document) -> Document | None:
        """Return the object as stored; None if it is another object, or has another owner, by now."""
        metadata = document["metadata"]
        there = await self._api.get(document["kind"], metadata.get("namespace", ""), metadata["name"])
        return there if there is not None and _identity(there) == _identity(document) else None


def _status_fields(document: Document) -> Document:
    """Return the status fields without the claim."""
    return {key: value for key, value in document.get("status", {}).items() if key != OWNERSHIP_FIELD}


def _identity(document: Document) -> tuple[str, str, list[str]]:
    """Return the facts that must not change between reading an object and writing its status."""
    metadata = document["metadata"]
    return metadata["uid"], OwnershipClaim.parse(document).name, metadata.get("finalizers", [])
