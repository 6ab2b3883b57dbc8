"""`ControllerRegistrationPublisher`: registers a standby controller at the active one.

Whenever the metadata does not have this process's registration, it is sent; the active controller writes its own when
it takes over. Source: ControllerRegistrationManager of Apache Kafka 4.3 (KIP-919).
"""

import logging
from typing import Final

from ottla.errors import ErrorCode
from ottla.membership.controller_channel import ControllerChannel
from ottla.membership.local_controller import LocalController
from ottla.metadata.cluster import ControllerRegistration, write_features, write_listeners
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL
from ottla.ports import Clock
from ottla.wire.codec import Message
from ottla.wire.messages import controller_registration as api

RETRY_MS: Final = 1_000

logger = logging.getLogger(__name__)


class ControllerRegistrationPublisher:
    """A publisher of the metadata loader, driven by `tick`."""

    def __init__(self, *, clock: Clock, controller: LocalController, channel: ControllerChannel) -> None:
        self._clock = clock
        self._controller = controller
        self._channel = channel
        self._is_missing = False
        self._is_in_flight = False
        self._next_ms = 0

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Check whether the metadata has this process's registration."""
        mine = self._controller.registration
        registered = image.cluster.controllers.get(mine.controller_id)
        is_shown = registered is not None and registered.incarnation_id == mine.incarnation_id
        self._is_missing = not is_shown and image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL

    def tick(self, now_ms: int) -> int | None:
        """Register if needed; the active controller writes its own registration.

        Return ``now_ms`` when a registration was due, else what `next_deadline_ms` would.
        """
        if not self._is_missing or self._is_in_flight or self._controller.is_active:
            return None
        if now_ms < self._next_ms:
            return self._next_ms
        self._is_in_flight = True
        self._channel.send(_request(self._controller.registration)).on_complete(self._on_response)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        return self._next_ms if self._is_missing and not self._is_in_flight and not self._controller.is_active else None

    def _on_response(self, response: Message) -> None:
        assert isinstance(response, api.ControllerRegistrationResponse)
        self._is_in_flight = False
        self._next_ms = self._clock.monotonic_ms() + RETRY_MS
        if response.error_code != ErrorCode.NONE:
            name = ErrorCode(response.error_code).name
            logger.info("the active controller did not register this one: %s; retrying", name)


def _request(mine: ControllerRegistration) -> api.ControllerRegistrationRequest:
    return api.ControllerRegistrationRequest(
        controller_id=mine.controller_id,
        incarnation_id=mine.incarnation_id,
        listeners=write_listeners(mine.listeners, api.Listener),
        features=write_features(mine.features, api.Feature),
    )
