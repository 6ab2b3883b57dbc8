"""Handler of Users."""

from typing import Any

import kopf

from ottla_operator.model.document import GROUP, VERSION
from ottla_operator.runtime.handlers.events import Marks, mark


def register(registry: kopf.OperatorRegistry, marks: Marks) -> None:
    """Mark every User dirty when it is created, changed or deleted. Secrets are not watched: see `crds/user.md`."""

    @kopf.on.event(GROUP, VERSION, "users", registry=registry)
    async def user_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        mark(marks, "User", event)
