"""DescribeQuorum (api key 55, v0-v2): who leads the metadata quorum, its voters, and how far each is (KIP-595).

v1 fetch and caught-up times (KIP-836); v2 directory ids, error messages, and where the voters listen (KIP-853).
Answered by `ottla.raft`. Not done: authorization; observers, which only a quorum of several nodes has.
Source: DescribeQuorumRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.raft.describe_quorum import describe_quorum as describe
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

_FIRST_VERSION_WITH_DIRECTORIES = 2


@serves(api_key=55, versions=range(0, 3))
def describe_quorum(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Ask this node's replica of the quorum."""
    services = context.services
    return describe(
        services.raft,
        request,
        wall_ms=services.clock.wall_ms(),
        with_directories=context.api_version >= _FIRST_VERSION_WITH_DIRECTORIES,
    )
