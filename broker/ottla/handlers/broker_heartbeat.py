"""BrokerHeartbeat (api key 63, v0-v2): a broker reports that it is alive, and the state that it wants (KIP-631).

Between nodes only. v1 offline log directories (KIP-858). Decided by `ottla.controller.brokers`.
v2 cordoned log directories (KIP-1066).
Source: BrokerHeartbeatRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.codec import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest


@serves(api_key=63, versions=range(0, 3), has_few_entries=True)
def broker_heartbeat(context: RequestContext, request: BrokerHeartbeatRequest) -> Delayed[Message]:
    """Record that the connection is the broker's, so that its close is noticed; forward to the controller."""
    if context.would_be_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        context.connection.heartbeats_of = (request.broker_id, request.broker_epoch)
    return forward_to_controller(context, request, requires=Operation.CLUSTER_ACTION)
