"""`ControllerRegistrationControl`: controllers register their listeners and supported features (KIP-919).

Source: ClusterControlManager.registerController of Apache Kafka 4.3.
"""

from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.cluster import ControllerRegistration, read_features, read_listeners
from ottla.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL, FeatureRange
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


class ControllerRegistrationControl:
    """Decides on the newest state; changes nothing itself."""

    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def register(self, request: ControllerRegistrationRequest) -> ControllerResult[ControllerRegistrationResponse]:
        """Register the controller, in place of its former incarnation.

        Raises:
            KafkaError: UNSUPPORTED_VERSION.
        """
        features = self._state.image.features
        if features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "The current MetadataVersion is too old to support controller registrations.",
            )
        registration = ControllerRegistration(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            listeners=read_listeners(request.listeners),
            features=read_features(request.features),
        )
        for name, level in sorted(features.levels.items()):
            offered = registration.features.get(name, FeatureRange(0, 0))
            if not offered.first <= level <= offered.last:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"Unable to register because the controller does not support finalized version {level} of {name}. "
                    f"The controller wants a version between {offered.first} and {offered.last}, inclusive.",
                )
        unchanged = self._state.image.cluster.controllers.get(request.controller_id) == registration
        response = ControllerRegistrationResponse(error_message=None)
        return ControllerResult(response, [] if unchanged else [registration.to_record()])
