"""OffsetCommit (api key 8, v2-v10): store a group's offsets.

v2-v4 retention time; v3 throttle time; v6 leader epochs (KIP-320); v7 group instance id (KIP-345); v8 flexible; v9
GROUP_ID_NOT_FOUND, STALE_MEMBER_EPOCH (KIP-848); v10 topics by id (KIP-848).
Source: OffsetCommitRequest.json; KafkaApis.handleOffsetCommitRequest of Apache Kafka 4.3.
"""

from copy import copy

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.handlers.offset_pieces import merge_topics, pieces_of_commit
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, map_in_steps, values_in_steps
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
def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> Steps[HandlerResult]:
    """Return errors for partitions that do not exist; store the others' offsets."""
    if not context.may_on_group(Operation.READ, request.group_id):
        return OffsetCommitResponse(topics=(yield from map_in_steps(_unauthorized, request.topics)))
    known: list[OffsetCommitRequestTopic] = []
    unknown: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        unknown_partitions = yield from _split_unknown_partitions(context, topic)
        yield None
        if unknown_partitions:
            unknown.append(
                OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=unknown_partitions)
            )
        if topic.partitions:
            known.append(topic)
    if not known:
        return OffsetCommitResponse(topics=unknown)
    committed: list[Delayed[OffsetCommitResponse]] = []
    for piece in pieces_of_commit(known):
        part = copy(request)
        part.topics = piece
        committed.append(context.services.groups.commit_offsets(part, context.api_version))
        yield None

    if len(committed) == 1:
        return committed[0].then(lambda response: _response([unknown, response.topics]))
    stored = yield from values_in_steps(committed)
    return (yield from _response([unknown, *(response.topics for response in stored)]))


def _response(parts: list[list[OffsetCommitResponseTopic]]) -> Steps[OffsetCommitResponse]:
    topics = yield from merge_topics(parts, lambda topic: (topic.name, topic.topic_id))
    return OffsetCommitResponse(topics=topics)


def _split_unknown_partitions(
    context: RequestContext, topic: OffsetCommitRequestTopic
) -> Steps[list[OffsetCommitResponsePartition]]:
    """Set both name and id of a topic; remove its partitions that do not exist, and return their errors."""
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
    known, unknown_partitions = [], []
    for number, partition in enumerate(topic.partitions, 1):
        if number % ITEMS_PER_STEP == 0:
            yield None
        if not is_allowed or metadata.partition(TopicPartition(topic.name, partition.partition_index)) is None:
            unknown_partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            )
        else:
            known.append(partition)
    topic.partitions = known
    return unknown_partitions


def _unauthorized(topic: OffsetCommitRequestTopic) -> OffsetCommitResponseTopic:
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
