"""Vote (api key 52, v0-v2): a candidate requests votes, or pre-votes (KIP-595).

Between controllers only. v1 directory ids (KIP-853); v2 pre-votes (KIP-996). Handled by `ottla.raft`.
Source: VoteRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.quorum_responses import without_endpoints
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.vote import VoteRequest, VoteResponse


@serves(api_key=52, versions=range(0, 3), has_few_entries=True)
def vote(context: RequestContext, request: VoteRequest) -> VoteResponse:
    """Let this node's replica of the quorum grant or reject it."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return without_endpoints(context, context.services.raft.handle_vote(request))
