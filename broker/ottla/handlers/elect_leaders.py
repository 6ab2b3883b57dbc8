"""ElectLeaders (api key 43, v0-v2): elect preferred or unclean leaders (KIP-460).

v0 only preferred ones, and no top-level error; v1 election_type; v2 flexible. Decided by
`ottla.controller.elect_leaders`. Source: ElectLeadersRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.controller_forwarding import forward_to_controller
from ottla.handlers.in_parts import Entries, forward_in_parts
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.acl_codes import Operation
from ottla.wire.codec import Message
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

_PARTITIONS = Entries(
    "topic_partitions",
    "replica_election_results",
    key="topic",
    nested=Entries("partitions", "partition_result", key=""),
)


@serves(api_key=43, versions=range(0, 3))
def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> Delayed[Message] | Steps[Message]:
    """Forward the request to the active controller."""

    def fit(response: Message) -> Message:
        assert isinstance(response, ElectLeadersResponse)
        if context.api_version == 0:
            # Version 0 has no field for it; the partitions have the error too.
            response.error_code = 0
        return response

    def forward(part: ElectLeadersRequest) -> Delayed[Message]:
        return forward_to_controller(context, part, requires=Operation.ALTER).then(fit)

    return forward_in_parts(request, _PARTITIONS, forward)
