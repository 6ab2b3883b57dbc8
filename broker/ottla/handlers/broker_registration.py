"""BrokerRegistration (api key 62, v0-v4): a broker registers with the cluster (KIP-631).

Between nodes only. v2 log directories (KIP-858); v3 previous epoch (KIP-966). Decided by `ottla.controller.brokers`.
Source: BrokerRegistrationRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest


@serves(api_key=62, versions=range(0, 5), has_few_entries=True)
def broker_registration(context: RequestContext, request: BrokerRegistrationRequest) -> Delayed[Message]:
    """Forward the request to the active controller."""
    return forward_to_controller(context, request, requires=Operation.CLUSTER_ACTION)
