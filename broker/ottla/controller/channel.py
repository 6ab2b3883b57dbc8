"""`ControllerChannel`: how a broker reaches the active controller.

Handlers send the decoded request and get the response class of its API, also when the controller refused it: the
error is then in the response's own fields.
"""

from typing import Protocol

from ottla.controller.controller import Controller
from ottla.controller.error_response import error_response
from ottla.errors import KafkaError
from ottla.purgatory import Delayed
from ottla.types import NodeId
from ottla.wire.codec import Message


class ControllerChannel(Protocol):
    """The way to the active controller, wherever it is."""

    def send(self, request: Message) -> Delayed[Message]:
        """Send ``request``; the answer is the response class of its API.

        NOT_CONTROLLER where no active controller can be reached.
        """

    @property
    def active_controller_id(self) -> NodeId | None:
        """Node id of the active controller; None while there is none."""


class LocalControllerChannel:
    """The channel of a node that is broker and controller, in a quorum of one: the controller is next door."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def send(self, request: Message) -> Delayed[Message]:
        def answer(decided: Message | KafkaError) -> Message:
            return error_response(request, decided) if isinstance(decided, KafkaError) else decided

        return self._controller.handle(request).then(answer)

    @property
    def active_controller_id(self) -> NodeId | None:
        return self._controller.active_controller_id
