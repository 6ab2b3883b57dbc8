"""EndQuorumEpoch (api key 54, v0-v1): the quorum's leader resigns and names preferred successors (KIP-595).

Between controllers only. v1 flexible, directory ids and the leader's endpoints (KIP-853). Handled by `ottla.raft`.
Source: EndQuorumEpochRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.quorum_responses import without_endpoints
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse


@serves(api_key=54, versions=range(0, 2), has_few_entries=True)
def end_quorum_epoch(context: RequestContext, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    """Let this node's replica of the quorum become a candidate, or wait."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return without_endpoints(context, context.services.raft.handle_end_quorum_epoch(request))
