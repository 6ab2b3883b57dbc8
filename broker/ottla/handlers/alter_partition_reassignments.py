"""AlterPartitionReassignments (api key 45, v0-v1): start or cancel reassignments of replicas (KIP-455).

v1 allow_replication_factor_change (KIP-860). Decided by `ottla.controller.reassignments`.
Source: AlterPartitionReassignmentsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest

_PARTITIONS = Entries("topics", "responses", key="name", nested=Entries("partitions", "partitions", key=""))


@serves(api_key=45, versions=range(0, 2))
def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""
    return forward_in_parts(
        request, _PARTITIONS, lambda part: forward_to_controller(context, part, requires=Operation.ALTER)
    )
