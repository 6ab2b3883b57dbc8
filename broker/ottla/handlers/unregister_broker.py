"""UnregisterBroker (api key 64, v0): forget a broker that will not come back.

Decided by `ottla.controller.brokers`.
Source: UnregisterBrokerRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest


@serves(api_key=64, versions=range(0, 1))
def unregister_broker(context: RequestContext, request: UnregisterBrokerRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request, requires=Operation.ALTER)
