"""Handler of Topics."""

from typing import Any

import kopf

from ottla_operator.model.document import GROUP, VERSION
from ottla_operator.runtime.handlers.events import Marks, mark


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Mark every Topic dirty when it is created, changed or deleted."""

    @kopf.on.event(GROUP, VERSION, "topics", registry=registry)
    async def topic_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        mark(marks, "Topic", event)
