"""From a watch event to a mark; what kind of change it was does not matter, except that the object is gone."""

from typing import cast

import kopf

from ottla_operator.controller import Controller
from ottla_operator.model.document import API_VERSION, Document


def mark(controller: Controller, kind: str, event: kopf.RawEvent) -> None:
    """Mark the object of ``event`` dirty, or forget it."""
    document = {**cast(Document, event["object"]), "apiVersion": API_VERSION, "kind": kind}
    if event["type"] == "DELETED":
        controller.gone(document)
    else:
        controller.seen(document)
