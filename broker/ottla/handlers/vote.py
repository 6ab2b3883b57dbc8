"""Vote (api key 52, v0-v2): a voter stands for election, or asks whether it should (KIP-595).

Between controllers only. v1 directory ids (KIP-853); v2 pre-votes (KIP-996). Answered by `ottla.raft`.
Source: VoteRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.quorum_answers import without_endpoints
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.vote import VoteRequest, VoteResponse


@serves(api_key=52, versions=range(0, 3), has_few_entries=True)
def vote(context: RequestContext, request: VoteRequest) -> VoteResponse:
    """Let this node's replica of the quorum grant or refuse it."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return without_endpoints(context, context.services.raft.handle_vote(request))
