"""OffsetCommit (api key 8, v2-v10): store how far a group has read.

v2-v4 retention time; v3 throttle time; v6 leader epochs (KIP-320); v7 group instance id (KIP-345); v8 flexible; v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848); v10 topics by id (KIP-848). Not done: consumer groups.
Source: OffsetCommitRequest.json; KafkaApis.handleOffsetCommitRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

_FIRST_VERSION_WITH_TOPIC_IDS = 10


@serves(api_key=8, versions=range(2, 11))
def offset_commit(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Delayed[OffsetCommitResponse]:
    """Answer for partitions that do not exist; have the others' offsets stored."""
    if not context.may_on_group(Operation.READ, request.group_id):
        return OffsetCommitResponse(topics=[_refuse(topic) for topic in request.topics])
    known: list[OffsetCommitRequestTopic] = []
    unknown: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        refused = _take_unknown(context, topic)
        if refused:
            unknown.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=refused))
        if topic.partitions:
            known.append(topic)
    if not known:
        return OffsetCommitResponse(topics=unknown)
    request.topics = known
    committed = context.services.groups.commit_offsets(request, context.api_version)
    return committed.then(lambda response: OffsetCommitResponse(topics=_merge(unknown, response.topics)))


def _take_unknown(context: RequestContext, topic: OffsetCommitRequestTopic) -> list[OffsetCommitResponsePartition]:
    """Give a topic both name and id, and take the partitions away from it that do not exist: return their answers."""
    metadata = context.services.metadata
    by_id = context.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    found = metadata.topic_by_id(topic.topic_id) if by_id else metadata.topic(topic.name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if found is not None:
        topic.name, topic.topic_id = found.name, found.topic_id
    elif by_id:
        error = ErrorCode.UNKNOWN_TOPIC_ID
    is_allowed = (found is None and by_id) or context.may_on_topic(Operation.READ, topic.name)
    if not is_allowed:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known, refused = [], []
    for partition in topic.partitions:
        if not is_allowed or metadata.partition(TopicPartition(topic.name, partition.partition_index)) is None:
            refused.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            )
        else:
            known.append(partition)
    topic.partitions = known
    return refused


def _refuse(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            )
            for partition in topic.partitions
        ],
    )


def _merge(
    first: list[OffsetCommitResponseTopic], second: list[OffsetCommitResponseTopic]
) -> list[OffsetCommitResponseTopic]:
    """Return both lists as one, in which a topic comes once."""
    by_id: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in (*first, *second):
        merged = by_id.setdefault((topic.name, topic.topic_id), topic)
        if merged is not topic:
            merged.partitions += topic.partitions
    return list(by_id.values())
