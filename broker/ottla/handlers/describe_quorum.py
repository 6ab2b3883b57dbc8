"""DescribeQuorum (api key 55, v0-v2): the leader of the metadata quorum, its voters, and their offsets (KIP-595).

v1 fetch and caught-up times (KIP-836); v2 directory ids, error messages, and the voters' endpoints (KIP-853).
Handled by `ottla.raft`.
Source: DescribeQuorumRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.raft.describe_quorum import describe_quorum as describe
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest

_FIRST_VERSION_WITH_DIRECTORIES = 2
_PARTITIONS = Entries("topics", "topics", key="topic_name", nested=Entries("partitions", "partitions", key=""))


@serves(api_key=55, versions=range(0, 3))
def describe_quorum(context: RequestContext, request: DescribeQuorumRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the leader of the quorum, on any node."""
    services = context.services

    def forward(part: DescribeQuorumRequest) -> Delayed[Message]:
        def describe_here(_: Message) -> Delayed[Message]:
            described = describe(
                services.raft,
                part,
                clock=services.clock,
                with_directories=context.api_version >= _FIRST_VERSION_WITH_DIRECTORIES,
            )
            return Delayed.of(described)

        return forward_to_controller(context, part, describe_here, requires=Operation.DESCRIBE)

    return forward_in_parts(request, _PARTITIONS, forward)
