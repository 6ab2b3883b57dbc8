"""AssignReplicasToDirs (api key 73, v0): a broker reports the log directories of its replicas (KIP-858).

Between nodes only. Decided by `ottla.controller.directories`, each replica for itself.
Source: AssignReplicasToDirsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest

_REPLICAS = Entries(
    "directories",
    "directories",
    key="id",
    nested=Entries("topics", "topics", key="topic_id", nested=Entries("partitions", "partitions", key="")),
)


@serves(api_key=73, versions=range(0, 1))
def assign_replicas_to_dirs(
    context: RequestContext, request: AssignReplicasToDirsRequest
) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller, a large one in parts."""
    return forward_in_parts(
        request, _REPLICAS, lambda part: forward_to_controller(context, part, requires=Operation.CLUSTER_ACTION)
    )
