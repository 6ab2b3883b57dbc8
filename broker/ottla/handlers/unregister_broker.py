"""UnregisterBroker (api key 64, v0): unregister a broker that will not return.

Decided by `ottla.controller.brokers`.
Source: UnregisterBrokerRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest


@serves(api_key=64, versions=range(0, 1))
def unregister_broker(context: RequestContext, request: UnregisterBrokerRequest) -> Delayed[Message]:
    """Forward the request to the active controller."""
    return forward_to_controller(context, request, requires=Operation.ALTER)
