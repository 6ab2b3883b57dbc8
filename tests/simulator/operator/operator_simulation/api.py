"""`SimulatedApi`: one operator's client of the simulated API server, with the retries of the real one."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from operator_simulation.api_faults import ApiFaults
from operator_simulation.store import Store
from ottla_operator.adapters.kubernetes.retries import with_retries
from ottla_operator.model.document import Document

CALL_S = 0.002

ResultT = TypeVar("ResultT")


class SimulatedApi:
    """The calls of `controllers.status.StatusStore`.

    Every method raises as those of `adapters.kubernetes.api.KubernetesApi` do.
    """

    def __init__(self, store: Store, faults: ApiFaults) -> None:
        self._store = store
        self._faults = faults

    async def get(self, kind: str, namespace: str, name: str) -> Document | None:
        return await self._ask("GET", f"{kind} {name}", lambda: self._store.get(kind, name))

    async def objects(self, kind: str, namespace: str = "", labels: str = "") -> list[Document]:
        return await self._ask("GET", f"every {kind}", lambda: self._store.objects(kind))

    async def create(self, document: Document) -> Document:
        return await self._ask("POST", _name(document), lambda: self._store.create(document))

    async def apply(self, document: Document) -> Document:
        return await self._ask("PATCH", _name(document), lambda: self._store.apply(document), is_apply=True)

    async def patch(self, document: Document, operations: Sequence[Document]) -> Document:
        raise NotImplementedError("no other client writes the operator's objects")

    async def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> None:
        await self._ask("DELETE", f"{kind} {name}", lambda: self._store.delete(kind, name))

    async def apply_status(self, document: Document, status: Document) -> Document:
        what = f"the status of {_name(document)}"
        return await self._ask("PATCH", what, lambda: self._store.apply_status(document, status), is_apply=True)

    async def patch_status(self, document: Document, patch: Document) -> Document:
        what = f"the status of {_name(document)}"
        return await self._ask("PATCH", what, lambda: self._store.patch_status(document, patch))

    async def replace_finalizers(self, document: Document, finalizers: list[str]) -> Document:
        what = f"the finalizers of {_name(document)}"
        return await self._ask("PATCH", what, lambda: self._store.replace_finalizers(document, finalizers))

    async def record_event(self, document: Document, *, reason: str, note: str, is_warning: bool) -> None:
        """Do nothing: no test reads Events."""
        await self._ask("POST", f"an Event of {_name(document)}", lambda: None)

    async def is_namespace_terminating(self, document: Document) -> bool:
        return await self._ask("POST", f"an Event that is only tried, of {_name(document)}", lambda: False)

    async def call(
        self, method: str, what: str, effect: Callable[[], Coroutine[Any, Any, ResultT]], *, is_apply: bool = False
    ) -> ResultT:
        """Execute ``effect`` at the server; retries and time-outs of the caller may execute it again, or late."""
        is_repeatable = method == "GET" or is_apply
        return await with_retries(lambda: self._faults.carry(method, what, effect), is_repeatable=is_repeatable)

    async def _ask(self, method: str, what: str, act: Callable[[], ResultT], *, is_apply: bool = False) -> ResultT:
        async def effect() -> ResultT:
            await asyncio.sleep(CALL_S)
            return act()

        return await self.call(method, what, effect, is_apply=is_apply)


def _name(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"
