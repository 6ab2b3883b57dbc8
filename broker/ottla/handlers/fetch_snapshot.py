"""FetchSnapshot (api key 59, v0-v1): a replica behind the log's start reads a snapshot in chunks (KIP-630).

Between nodes only. v1 the replica's directory id (KIP-853). Handled by `ottla.raft`.
Source: FetchSnapshotRequest.json of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.handlers.quorum_responses import without_endpoints
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse


@serves(api_key=59, versions=range(0, 2), has_few_entries=True)
def fetch_snapshot(context: RequestContext, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
    """Let this node's replica of the quorum read the chunk."""
    context.require_on_cluster(Operation.CLUSTER_ACTION)
    return without_endpoints(context, context.services.raft.handle_fetch_snapshot(request))
