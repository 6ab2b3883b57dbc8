"""BeginQuorumEpoch (api key 53, v0-v1): a voter announces that it has been elected (KIP-595).

Between controllers only. v1 flexible, directory ids and the leader's endpoints (KIP-853). Handled by `ottla.raft`.
Source: BeginQuorumEpochRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.quorum_responses import without_endpoints
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse


@serves(api_key=53, versions=range(0, 2), has_few_entries=True)
def begin_quorum_epoch(context: RequestContext, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    """Let this node's replica of the quorum follow the new leader."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return without_endpoints(context, context.services.raft.handle_begin_quorum_epoch(request))
