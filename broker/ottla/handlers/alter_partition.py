"""AlterPartition (api key 56, v2-v3): a partition's leader changes its ISR (KIP-497).

Between nodes only. v3 names each replica's broker epoch (KIP-903); in v2 none is known. Decided by
`ottla.controller.alter_partition`, each partition for itself. Source: AlterPartitionRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition import AlterPartitionRequest

_PARTITIONS = Entries("topics", "topics", key="topic_id", nested=Entries("partitions", "partitions", key=""))


@serves(api_key=56, versions=range(2, 4))
def alter_partition(context: RequestContext, request: AlterPartitionRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller, a large one in parts."""
    return forward_in_parts(
        request, _PARTITIONS, lambda part: forward_to_controller(context, part, requires=Operation.CLUSTER_ACTION)
    )
