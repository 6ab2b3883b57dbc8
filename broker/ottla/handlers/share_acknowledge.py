"""ShareAcknowledge (api key 79, v1-v2): acknowledge records of a share group (KIP-932).

v2 renewal of acquisition locks, and their time-out in the response. Epoch -1 closes the share session.
Source: ShareAcknowledgeRequest.json; KafkaApis.handleShareAcknowledgeRequest of Apache Kafka 4.3.1.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.moved_leader import add_moved_leader
from ottla.handlers.share_acknowledgements import (
    LISTED_PER_STEP,
    MOVED,
    Acknowledged,
    acknowledge,
    require_manager,
    require_member,
)
from ottla.purgatory.steps import Steps, values_in_steps
from ottla.share_partitions.manager import SharePartitionManager
from ottla.share_partitions.share_session_cache import ShareSessionKey
from ottla.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.wire.session_epochs import FINAL_EPOCH, INITIAL_EPOCH


@serves(api_key=79, versions=range(1, 3))
def share_acknowledge(context: RequestContext, request: ShareAcknowledgeRequest) -> Steps[HandlerResult]:
    """Check the session, apply the acknowledgements; respond when they are written."""
    try:
        manager = require_manager(context)
        require_member(context, request.group_id, request.member_id)
        key = ShareSessionKey(request.group_id or "", request.member_id or "")
        _check_session(manager, key, request.share_session_epoch)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code)
    results = yield from acknowledge(context, *key, request.topics, is_renew=request.is_renew_ack)
    released = []
    if request.share_session_epoch == FINAL_EPOCH:
        session = manager.sessions.close(key)
        if session is not None:
            released = yield from manager.release(session)
    yield from values_in_steps([*results.values(), *released])
    return (yield from _response(context, manager, key.group_id, results))


def _check_session(manager: SharePartitionManager, key: ShareSessionKey, epoch: int) -> None:
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    if epoch == FINAL_EPOCH:
        manager.sessions.require(key)
    else:
        manager.sessions.advance(key, epoch)


def _response(
    context: RequestContext, manager: SharePartitionManager, group_id: str, results: Acknowledged
) -> Steps[ShareAcknowledgeResponse]:
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=manager.settings.record_lock_duration_ms(group_id))
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    for number, (wanted, result) in enumerate(results.items(), 1):
        topic = topics.get(wanted.topic_id)
        if topic is None:
            topic = topics[wanted.topic_id] = ShareAcknowledgeTopicResponse(topic_id=wanted.topic_id)
            response.responses.append(topic)
        error, message = result.value
        data = PartitionData(partition_index=wanted.partition, error_code=error, error_message=message)
        name = context.services.metadata.topic_name(wanted.topic_id)
        if error in MOVED and name is not None:
            add_moved_leader(context, data.current_leader, response.node_endpoints, name, wanted.partition)
        topic.partitions.append(data)
        if number % LISTED_PER_STEP == 0:
            yield None
    return response
