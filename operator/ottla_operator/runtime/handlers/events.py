"""From a watch event to a mark; what kind of change it was does not matter, except that the object is gone."""

from typing import Protocol, cast

import kopf

from ottla_operator.model.document import API_VERSION, Document


class Marks(Protocol):
    """The calls of `controllers.manager.ControllerManager` that handlers make."""

    def seen(self, document: Document) -> None: ...
    def gone(self, document: Document) -> None: ...
    def child_seen(self, namespace: str, cluster: str) -> None: ...


def mark(marks: Marks, kind: str, event: kopf.RawEvent) -> None:
    """Mark the object of ``event`` dirty, or forget it."""
    document = {**cast(Document, event["object"]), "apiVersion": API_VERSION, "kind": kind}
    if event["type"] == "DELETED":
        marks.gone(document)
    else:
        marks.seen(document)
