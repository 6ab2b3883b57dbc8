"""`ControllerChannel`: how a broker reaches the active controller."""

from typing import Protocol

from ottla.purgatory import Delayed
from ottla.wire.codec import Message


class ControllerChannel(Protocol):
    """The way to the active controller, wherever it is."""

    def send(
        self, request: Message, *, principal: str = "User:ANONYMOUS", client_id: str | None = None
    ) -> Delayed[Message]:
        """Send ``request``, decoded as its newest version; the answer is the response class of its API.

        Requests that cannot reach a controller are answered with NOT_CONTROLLER in the response's own terms.
        """

    @property
    def active_controller_id(self) -> int | None:
        """Node id of the active controller; None while there is none."""
