"""Users as kopf sees them change."""

from typing import Any

import kopf

from ottla_operator.controller import Controller
from ottla_operator.handlers.events import mark
from ottla_operator.model.document import GROUP, VERSION


def register(registry: kopf.OperatorRegistry, controller: Controller) -> None:
    """Mark every User dirty when it appears, changes or goes. Their Secrets are not watched: see `crds/user.md`."""

    @kopf.on.event(GROUP, VERSION, "users", registry=registry)
    async def user_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401 - kopf's further arguments
        mark(controller, "User", event)
