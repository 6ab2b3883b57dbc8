"""`LocalController`: the controller in this process, as the broker's side sees it; it may be a standby."""

from typing import Protocol

from ottla.errors import KafkaError
from ottla.metadata.cluster import ControllerRegistration
from ottla.purgatory import Delayed
from ottla.security.quotas.mutations import Mutations
from ottla.wire.codec import Message


class LocalController(Protocol):
    """Interface of `ottla.controller.quorum_controller` for the node that it runs in."""

    @property
    def is_active(self) -> bool:
        """Whether it is the active controller."""

    @property
    def registration(self) -> ControllerRegistration:
        """Its own registration for the active controller."""

    def handle(
        self, request: Message, mutations: Mutations | None = None, *, requester: str | None = None
    ) -> Delayed[Message | KafkaError]:
        """Process a request; NOT_CONTROLLER when it is not the active controller."""
