"""OffsetCommit (api key 8, v2-v10): store how far a group has read.

v2-v4 retention time; v3 throttle time; v6 leader epochs (KIP-320); v7 group instance id (KIP-345); v8 flexible; v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848); v10 topics by id (KIP-848). Not done: authorization, consumer groups.
Source: OffsetCommitRequest.json; KafkaApis.handleOffsetCommitRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.groups.coordinator import refused_topic
from ottla.handlers.api import RequestContext, serves
from ottla.metadata.cache import MetadataCache
from ottla.purgatory import Delayed
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)

_FIRST_VERSION_WITH_TOPIC_IDS = 10


@serves(api_key=8, versions=range(2, 11))
def offset_commit(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Delayed[OffsetCommitResponse]:
    """Answer for topics that do not exist; have the others' offsets stored."""
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        if _complete(topic, context.services.metadata, by_id=by_id):
            known.append(topic)
        else:
            refused.append(refused_topic(topic, error))
    if refused and not known:
        return OffsetCommitResponse(topics=refused)
    request.topics = known

    def answer(response: OffsetCommitResponse) -> OffsetCommitResponse:
        response.topics = [*refused, *response.topics]
        return response

    return context.services.groups.commit_offsets(request, context.api_version).then(answer)


def _complete(topic: OffsetCommitRequestTopic, metadata: MetadataCache, *, by_id: bool) -> bool:
    """Add the name to a topic's id, or the id to its name; return whether there is such a topic."""
    found = metadata.topic_by_id(topic.topic_id) if by_id else metadata.topic(topic.name)
    if found is not None:
        topic.name, topic.topic_id = found.name, found.topic_id
    return found is not None
