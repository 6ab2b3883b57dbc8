"""AssignReplicasToDirs (api key 73, v0): a broker says which of its log directories hold which replicas (KIP-858).

Between nodes only. Decided by `ottla.controller.directories`.
Source: AssignReplicasToDirsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.ask_controller import ask_controller
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest


@serves(api_key=73, versions=range(0, 1))
def assign_replicas_to_dirs(context: RequestContext, request: AssignReplicasToDirsRequest) -> Delayed[Message]:
    """Pass the request on to the active controller."""
    return ask_controller(context, request, requires=Operation.CLUSTER_ACTION)
