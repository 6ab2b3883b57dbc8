"""OffsetFetch (api key 9, v1-v10): how far groups have read.

v2 all topics when none are named, an error for the whole; v3 throttle time; v5 leader epochs; v6 flexible; v7 require
stable (KIP-447); v8 several groups (KIP-709); v9 member id and epoch (KIP-848); v10 topics by id (KIP-848).
Not done: consumer groups. Source: OffsetFetchRequest.json; KafkaApis.handleOffsetFetchRequest of Apache Kafka 4.3.
"""

from functools import partial

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.handlers.permissions import split
from ottla.purgatory import Delayed
from ottla.purgatory.delayed import when_all
from ottla.wire.acl_codes import Operation, ResourceType
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_FIRST_VERSION_WITH_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_VERSION_WITH_TOPIC_IDS = 10
_NO_OFFSET = -1


@serves(api_key=9, versions=range(1, 11))
def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Delayed[OffsetFetchResponse]:
    """Ask for each group; versions below 8 ask for one and are answered in another shape."""
    if context.api_version >= _FIRST_VERSION_WITH_GROUPS:
        groups = [_fetch(context, group, require_stable=request.require_stable) for group in request.groups]
        return when_all(groups).then(lambda answers: OffsetFetchResponse(groups=answers))
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )
    fetched = _fetch_allowed(context, group, require_stable=request.require_stable)
    return fetched.then(lambda answer: _single(answer, request.topics or [], context.api_version))


def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> Delayed[OffsetFetchResponseGroup]:
    """Fetch one group's offsets, translating ids of topics where the version has them."""
    metadata = context.services.metadata
    if context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS:
        return _fetch_allowed(context, group, require_stable=require_stable)
    unknown = []
    if group.topics is not None:
        for topic in group.topics:
            name = metadata.topic_name(topic.topic_id)
            if name is None:
                unknown.append(_without_offsets(topic, ErrorCode.UNKNOWN_TOPIC_ID))
            else:
                topic.name = name
        group.topics = [topic for topic in group.topics if topic.name]

    def answer(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if response.error_code != ErrorCode.NONE:
            return response
        found = []
        for topic in response.topics:
            topic_id = metadata.topic_id(topic.name)
            # Offsets of a topic that was deleted meanwhile have no id to be named by.
            if topic_id is not None:
                topic.topic_id = topic_id
                found.append(topic)
        response.topics = [*found, *unknown]
        return response

    return _fetch_allowed(context, group, require_stable=require_stable).then(answer)


def _fetch_allowed(
    context: RequestContext, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> Delayed[OffsetFetchResponseGroup]:
    """Fetch what the client may see: a topic that it named and may not describe has an error, others are left out."""
    if not context.may_on_group(Operation.DESCRIBE, group.group_id):
        refused = OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return Delayed.of(refused)
    if group.topics is None:
        fetched = context.services.groups.fetch_offsets(group, require_stable=require_stable)
        return fetched.then(partial(_leave_out_hidden, context))
    group.topics, hidden = split(group.topics, lambda topic: context.may_on_topic(Operation.DESCRIBE, topic.name))

    def answer(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if response.error_code == ErrorCode.NONE:
            response.topics += [_without_offsets(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for topic in hidden]
        return response

    return context.services.groups.fetch_offsets(group, require_stable=require_stable).then(answer)


def _leave_out_hidden(context: RequestContext, response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
    response.topics = [
        topic
        for topic in response.topics
        if context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    ]
    return response


def _without_offsets(topic: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=partition, committed_offset=_NO_OFFSET, metadata="", error_code=error
            )
            for partition in topic.partition_indexes
        ],
    )


def _single(
    group: OffsetFetchResponseGroup, asked: list[OffsetFetchRequestTopic], api_version: int
) -> OffsetFetchResponse:
    """Answer in the shape of one group; version 1 has no place for its error but the partitions."""
    if group.error_code != ErrorCode.NONE and api_version < _FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=partition,
                            committed_offset=_NO_OFFSET,
                            metadata="",
                            error_code=group.error_code,
                        )
                        for partition in topic.partition_indexes
                    ],
                )
                for topic in asked
            ]
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
