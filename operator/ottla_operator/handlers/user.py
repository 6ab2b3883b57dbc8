"""Users as kopf sees them change."""

from typing import Any

import kopf

from ottla_operator.handlers.events import Marks, mark
from ottla_operator.model.document import GROUP, VERSION


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Mark every User dirty when it appears, changes or goes. Their Secrets are not watched: see `crds/user.md`."""

    @kopf.on.event(GROUP, VERSION, "users", registry=registry)
    async def user_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        mark(marks, "User", event)
