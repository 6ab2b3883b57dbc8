"""OffsetFetch (api key 9, v1-v10): the committed offsets of groups.

v2 all topics if none are named, top-level error; v3 throttle time; v5 leader epochs; v6 flexible; v7 require
stable (KIP-447); v8 several groups (KIP-709); v9 member id and epoch (KIP-848); v10 topics by id (KIP-848).
Source: OffsetFetchRequest.json; KafkaApis.handleOffsetFetchRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, map_in_steps, run_to_end, split_in_steps, values_in_steps
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
_PARTITIONS_PER_PIECE = 128


@serves(api_key=9, versions=range(1, 11))
def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> Steps[HandlerResult]:
    """Fetch each group's offsets; versions below 8 have one group and another form of response."""
    if context.api_version >= _FIRST_VERSION_WITH_GROUPS:
        groups: list[Delayed[OffsetFetchResponseGroup]] = []
        groups_with_all: set[str] = set()
        for each in request.groups:
            if each.topics is None:
                # Duplicate requests of a group return each offset once.
                if each.group_id in groups_with_all:
                    continue
                groups_with_all.add(each.group_id)
            groups.append((yield from _fetch(context, each, require_stable=request.require_stable)))
            yield None
        if len(groups) == 1:
            return groups[0].then(lambda group: OffsetFetchResponse(groups=[group]))
        return OffsetFetchResponse(groups=(yield from values_in_steps(groups)))
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if request.topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ],
    )
    fetched = yield from _fetch_allowed(context, group, require_stable=request.require_stable)
    return fetched.then(lambda group: _single(group, request.topics or [], context.api_version))


def _fetch(
    context: RequestContext, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> Steps[Delayed[OffsetFetchResponseGroup]]:
    """Fetch one group's offsets, translating topic ids if the version has them."""
    metadata = context.services.metadata
    if context.api_version < _FIRST_VERSION_WITH_TOPIC_IDS:
        return (yield from _fetch_allowed(context, group, require_stable=require_stable))
    unknown = []
    if group.topics is not None:
        for number, topic in enumerate(group.topics, 1):
            if number % ITEMS_PER_STEP == 0:
                yield None
            name = metadata.topic_name(topic.topic_id)
            if name is None:
                unknown.append((yield from _without_offsets(ErrorCode.UNKNOWN_TOPIC_ID, topic)))
            else:
                topic.name = name
        group.topics = [topic for topic in group.topics if topic.name]
    fetched = yield from _fetch_allowed(context, group, require_stable=require_stable)
    if group.topics is not None and len(group.topics) <= ITEMS_PER_STEP:
        return fetched.then(lambda response: run_to_end(_with_ids(context, response, unknown)))
    return Delayed.of((yield from _with_ids(context, (yield fetched), unknown)))


def _with_ids(
    context: RequestContext, response: OffsetFetchResponseGroup, unknown: list[OffsetFetchResponseTopics]
) -> Steps[OffsetFetchResponseGroup]:
    if response.error_code != ErrorCode.NONE:
        return response
    found = []
    for number, topic in enumerate(response.topics, 1):
        if number % ITEMS_PER_STEP == 0:
            yield None
        topic_id = context.services.metadata.topic_id(topic.name)
        # A topic that has been deleted meanwhile has no id, so its offsets are omitted.
        if topic_id is not None:
            topic.topic_id = topic_id
            found.append(topic)
    response.topics = [*found, *unknown]
    return response


def _fetch_allowed(
    context: RequestContext, group: OffsetFetchRequestGroup, *, require_stable: bool
) -> Steps[Delayed[OffsetFetchResponseGroup]]:
    """Fetch the offsets that the client may see: requested topics without DESCRIBE fail, others are omitted."""
    if not context.may_on_group(Operation.DESCRIBE, group.group_id):
        denied = OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return Delayed.of(denied)
    groups = context.services.groups
    if group.topics is None:
        committed, _ = yield from split_in_steps(
            groups.committed_partitions(group.group_id),
            lambda topic: context.would_be_allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic.name),
        )
        return (yield from _fetch_in_pieces(context, group, committed, require_stable=require_stable))
    allowed, hidden = yield from split_in_steps(
        group.topics, lambda topic: context.may_on_topic(Operation.DESCRIBE, topic.name)
    )
    denied_topics = []
    for topic in hidden:
        denied_topics.append((yield from _without_offsets(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic)))

    def add_denied(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if response.error_code == ErrorCode.NONE:
            response.topics += denied_topics
        return response

    fetched = yield from _fetch_in_pieces(context, group, allowed, require_stable=require_stable)
    return fetched.then(add_denied)


def _fetch_in_pieces(
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    topics: list[OffsetFetchRequestTopics],
    *,
    require_stable: bool,
) -> Steps[Delayed[OffsetFetchResponseGroup]]:
    """Fetch some partitions' offsets at a time; at least once, for the group's error."""
    fetched: list[Delayed[OffsetFetchResponseGroup]] = []
    for piece in _pieces(topics):
        wanted = OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=piece
        )
        fetched.append(context.services.groups.fetch_offsets(wanted, require_stable=require_stable))
        yield None

    if len(fetched) == 1:
        return fetched[0]
    merged = OffsetFetchResponseGroup(group_id=group.group_id)
    for part in (yield from values_in_steps(fetched)):
        yield None
        if part.error_code != ErrorCode.NONE:
            return Delayed.of(part)
        first = part.topics[0]
        if merged.topics and merged.topics[-1].name == first.name:
            # A topic was split between two pieces.
            merged.topics[-1].partitions += first.partitions
            del part.topics[0]
        merged.topics += part.topics
    return Delayed.of(merged)


def _pieces(topics: list[OffsetFetchRequestTopics]) -> Iterator[list[OffsetFetchRequestTopics]]:
    """Yield the topics, or parts of them, in lists of similar cost; at least one list, possibly empty."""
    piece: list[OffsetFetchRequestTopics] = []
    cost = 0
    for topic in topics:
        # A topic without partitions has a result without partitions.
        for start in range(0, max(len(topic.partition_indexes), 1), _PARTITIONS_PER_PIECE):
            indexes = topic.partition_indexes[start : start + _PARTITIONS_PER_PIECE]
            if piece and cost + len(indexes) >= _PARTITIONS_PER_PIECE:
                yield piece
                piece, cost = [], 0
            piece.append(OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=indexes))
            cost += len(indexes) + 1
    yield piece


def _without_offsets(error: ErrorCode, topic: OffsetFetchRequestTopics) -> Steps[OffsetFetchResponseTopics]:
    yield None
    partitions = yield from map_in_steps(
        lambda index: OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=error
        ),
        topic.partition_indexes,
        per_step=64,
    )
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _single(
    group: OffsetFetchResponseGroup, requested: list[OffsetFetchRequestTopic], api_version: int
) -> Steps[OffsetFetchResponse]:
    """Return the response in the form for one group; version 1 has its error in the partitions only."""
    topics: list[OffsetFetchResponseTopic] = []
    if group.error_code != ErrorCode.NONE and api_version < _FIRST_VERSION_WITH_ERROR:
        for topic in requested:
            failed = yield from map_in_steps(
                lambda index: OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=_NO_OFFSET, metadata="", error_code=group.error_code
                ),
                topic.partition_indexes,
                per_step=64,
            )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=failed))
        return OffsetFetchResponse(topics=topics)
    for found in group.topics:
        partitions = yield from map_in_steps(_single_partition, found.partitions, per_step=64)
        topics.append(OffsetFetchResponseTopic(name=found.name, partitions=partitions))
        yield None
    return OffsetFetchResponse(error_code=group.error_code, topics=topics)


def _single_partition(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
