"""`LocalController`: the controller in this process, as the broker's side sees it; it may be a standby."""

from typing import Protocol

from ottla.errors import KafkaError
from ottla.metadata.cluster import ControllerRegistration
from ottla.purgatory import Delayed
from ottla.security.quotas.mutations import Mutations
from ottla.wire.codec import Message


class LocalController(Protocol):
    """What `ottla.controller.quorum_controller` has to offer to the node that it runs in."""

    @property
    def is_active(self) -> bool:
        """Whether it decides now."""

    @property
    def registration(self) -> ControllerRegistration:
        """What it registers as at the active controller."""

    def handle(self, request: Message, mutations: Mutations | None = None) -> Delayed[Message | KafkaError]:
        """Decide; NOT_CONTROLLER where it is not the active one."""
