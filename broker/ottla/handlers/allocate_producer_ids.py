"""AllocateProducerIds (api key 67, v0): a broker requests a block of producer ids (KIP-730).

Between nodes only. Decided by `ottla.controller.producer_ids`.
Source: AllocateProducerIdsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


@serves(api_key=67, versions=range(0, 1))
def allocate_producer_ids(context: RequestContext, request: AllocateProducerIdsRequest) -> Delayed[Message]:
    """Forward the request to the active controller."""
    return forward_to_controller(context, request, requires=Operation.CLUSTER_ACTION)
