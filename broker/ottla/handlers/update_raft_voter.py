"""UpdateRaftVoter (api key 82, v0): a voter updates its endpoints and supported versions (KIP-853).

Between controllers only. Decided by `ottla.raft`.
Source: UpdateRaftVoterRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


@serves(api_key=82, versions=range(0, 1), has_few_entries=True)
def update_raft_voter(context: RequestContext, request: UpdateRaftVoterRequest) -> Delayed[UpdateRaftVoterResponse]:
    """Let this node's replica of the quorum decide."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return context.services.raft.handle_update_voter(request)
