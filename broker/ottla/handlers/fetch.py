"""Fetch (api key 1, v4-v18): read record batches; the response waits for min_bytes or max_wait_ms.

v7 incremental sessions (KIP-227); v11 rack, reads from followers (KIP-392); v12 flexible, last fetched epoch and
diverging epoch (KIP-595); v13 topic ids (KIP-516); v15 replica state (KIP-903); v16 node endpoints (KIP-951); v17
replica directory; v18 high watermark (KIP-1166). On a controller's listener replicas of the quorum fetch its log.
Source: FetchRequest.json; KafkaApis.handleFetchRequest of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import KafkaError
from ottla.handlers.api import HandlerResult, ListenerRole, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.replication.fetch.consumer_fetch import ConsumerFetch, RejectedFetch
from ottla.replication.fetch.fetch_round import STRAIGHT_MAX, FetchRound
from ottla.replication.fetch.follower_fetch import FollowerFetch
from ottla.replication.sessions.fetch_session import FetchContext
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_VERSION_WITH_REPLICA_STATE = 15
_FIRST_VERSION_OF_THE_QUORUM = 17
_CONSUMER = -1
# Looking these up in their classes for every fetch would cost as much as calls.
_CONTROLLER, _CLUSTER_ACTION = ListenerRole.CONTROLLER, Operation.CLUSTER_ACTION


def _fetch_metadata_log(context: RequestContext, request: FetchRequest) -> HandlerResult:
    """Fetch from the quorum's log; endpoints of voters are returned from v17 on, as in Kafka."""
    result = context.services.raft.handle_fetch(request)
    if context.api_version >= _FIRST_VERSION_OF_THE_QUORUM:
        return result

    def without_endpoints(response: FetchResponse) -> FetchResponse:
        response.node_endpoints = []
        return response

    return result.then(without_endpoints) if isinstance(result, Delayed) else without_endpoints(result)


@serves(api_key=1, versions=range(4, 19))
def fetch(context: RequestContext, request: FetchRequest) -> HandlerResult:
    """Read now; wait for more unless there are enough bytes, an error, or no time left."""
    if context.connection.role is _CONTROLLER:
        context.require_on_cluster(Operation.CLUSTER_ACTION)
        return _fetch_metadata_log(context, request)
    has_state = context.api_version >= _FIRST_VERSION_WITH_REPLICA_STATE
    replica_id = request.replica_state.replica_id if has_state else request.replica_id
    is_follower = replica_id != _CONSUMER and context.may_on_cluster(_CLUSTER_ACTION)
    if _names_many(request):
        return _fetch_many(context, request, replica_id, is_follower=is_follower)
    try:
        session = context.services.fetch_sessions.open_context(
            request,
            uses_topic_ids=context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=context.received_at_ms,
            is_follower=is_follower,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    return _new_round(context, request, session, replica_id, is_follower=is_follower).start()


def _fetch_many(
    context: RequestContext, request: FetchRequest, replica_id: int, *, is_follower: bool
) -> Steps[HandlerResult]:
    """Handle a request with many partitions in slices."""
    try:
        session = yield from context.services.fetch_sessions.open_in_slices(
            request,
            uses_topic_ids=context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS,
            now_ms=context.received_at_ms,
            is_follower=is_follower,
        )
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    assert session.session is not None, "of one fetch at least"
    round_ = _new_round(context, request, session, replica_id, is_follower=is_follower)
    return (yield from round_.run(session.session))


def _new_round(
    context: RequestContext, request: FetchRequest, session: FetchContext, replica_id: int, *, is_follower: bool
) -> FetchRound:
    name_leader = partial(add_moved_leader, context)
    if is_follower:
        context.connection.follower_id = replica_id
        if context.charge is not None:
            context.charge.is_exempt = True
        return FollowerFetch(context, request, session, name_leader, replica_id=replica_id)
    return (ConsumerFetch if replica_id == _CONSUMER else RejectedFetch)(context, request, session, name_leader)


def _names_many(request: FetchRequest) -> bool:
    """Return whether the request names more partitions than are handled without yielding."""
    left = STRAIGHT_MAX
    for topics in (request.topics, request.forgotten_topics_data):
        for topic in topics:
            left -= len(topic.partitions) or 1
            if left < 0:
                return True
    return False
