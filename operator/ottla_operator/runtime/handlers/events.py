"""From a watch event to a mark; the type of the event does not matter, except for a deletion."""

from typing import Protocol, cast

import kopf

from ottla_operator.model.document import API_VERSION, Document


class Marks(Protocol):
    """The calls of `controllers.manager.ControllerManager` that handlers make."""

    def seen(self, document: Document) -> None: ...
    def gone(self, document: Document) -> None: ...
    def child_seen(self, namespace: str, cluster: str) -> None: ...


def mark(marks: Marks, kind: str, event: kopf.RawEvent) -> None:
    """Mark the object of ``event`` dirty, or remove it."""
    document = {**cast(Document, event["object"]), "apiVersion": API_VERSION, "kind": kind}
    if event["type"] == "DELETED":
        marks.gone(document)
    else:
        marks.seen(document)
