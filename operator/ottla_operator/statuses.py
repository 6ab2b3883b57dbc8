"""Writing the status of objects, only when it says something new."""

from collections.abc import Callable
from typing import Protocol

from ottla_operator.cluster_claims import CLAIM_FIELD
from ottla_operator.hosts.object_store import ObjectStore
from ottla_operator.model.conditions import Accepted
from ottla_operator.model.document import Document
from ottla_operator.reconcile.reconciler import Pass, status


class StatusStore(ObjectStore, Protocol):
    """The calls of `clients.kubernetes_api.KubernetesApi` that the controller makes besides its hosts."""

    async def apply_status(self, document: Document, status: Document) -> None: ...
    async def patch_status(self, document: Document, patch: Document) -> Document: ...
    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> None: ...
    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None: ...
    async def is_namespace_going(self, document: Document) -> bool: ...


class Statuses:
    """Writes statuses to ``api``; ``now`` tells the time as RFC 3339; ``told`` hears what an object's status is now.

    All but the claim of a Cluster, into which other operators write as well: that is kept as it is there.
    """

    def __init__(self, api: StatusStore, now: Callable[[], str], *, told: Callable[[Document, Document], None]) -> None:
        self._api = api
        self._now = now
        self._told = told

    async def accept(self, document: Document) -> None:
        """Give a new object its conditions at once: waiting without any looks like being forgotten."""
        if not document.get("status", {}).get("conditions"):
            await self._apply(document, status(document, Pass(Accepted(), {}), now=self._now()))

    async def keep(self, document: Document, facts: Document) -> None:
        """Write ``facts``, of which an operator that is killed after the next step must know."""
        if not document.get("status", {}).get("conditions"):
            document["status"] = status(document, Pass(Accepted(), {}), now=self._now())
        await self._apply(document, {**document["status"], **facts})

    async def write(self, document: Document, outcome: Pass) -> bool:
        """Write the status that ``outcome`` leads to, unless it is there already; True when it was written."""
        new = status(document, outcome, now=self._now())
        self._told(document, new)
        if new == document.get("status"):
            return False
        await self._apply(document, new)
        return True

    async def _apply(self, document: Document, new: Document) -> None:
        await self._api.apply_status(document, {key: value for key, value in new.items() if key != CLAIM_FIELD})
        document["status"] = new
