"""ListPartitionReassignments (api key 46, v0): the ongoing reassignments (KIP-455).

Decided by `ottla.controller.reassignments`.
Source: ListPartitionReassignmentsRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

_PARTITIONS = Entries("topics", "topics", key="name", nested=Entries("partition_indexes", "partitions", key=""))


@serves(api_key=46, versions=range(0, 1))
def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""
    return forward_in_parts(
        request, _PARTITIONS, lambda part: forward_to_controller(context, part, requires=Operation.DESCRIBE)
    )
