"""ControllerRegistration (api key 70, v0): a controller registers its listeners and features.

Between nodes only (KIP-919). Decided by `ottla.controller.controller_registrations`.
Source: ControllerRegistrationRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest


@serves(api_key=70, versions=range(0, 1), has_few_entries=True)
def controller_registration(context: RequestContext, request: ControllerRegistrationRequest) -> Delayed[Message]:
    """Forward the request to the active controller."""
    return forward_to_controller(context, request, requires=Operation.CLUSTER_ACTION)
