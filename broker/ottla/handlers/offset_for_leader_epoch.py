"""OffsetForLeaderEpoch (api key 23, v2-v4): the end offset of a leader epoch, to find where two logs diverge.

v3 replica id; v4 flexible. Each duplicate has a result, as in Kafka; entries beyond `STRAIGHT_MAX` are looked up in
slices. Source: OffsetForLeaderEpochRequest.json; KIP-101, KIP-279, KIP-320.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias

from ottla.errors import KafkaError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory.steps import Steps, batches
from ottla.wire.acl_codes import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)

STRAIGHT_MAX: Final = 64
_PER_SLICE: Final = 16

_Entry: TypeAlias = OffsetForLeaderPartition | OffsetForLeaderTopicResult


@serves(api_key=23, versions=range(2, 5))
def offset_for_leader_epoch(context: RequestContext, request: OffsetForLeaderEpochRequest) -> HandlerResult:
    """Look up each partition's leader epoch cache."""
    response = OffsetForLeaderEpochResponse()
    is_follower = context.would_be_allowed(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
    entries = _entries(request.topics)
    first = list(islice(entries, STRAIGHT_MAX))
    _look_up(context, first, response, is_follower=is_follower)
    if len(first) < STRAIGHT_MAX:
        return response
    return _look_up_rest(context, entries, response, is_follower=is_follower)


def _look_up_rest(
    context: RequestContext, entries: Iterator[_Entry], response: OffsetForLeaderEpochResponse, *, is_follower: bool
) -> Steps[OffsetForLeaderEpochResponse]:
    for some in batches(entries, _PER_SLICE):
        yield None
        _look_up(context, some, response, is_follower=is_follower)
    return response


def _entries(topics: list[OffsetForLeaderTopic]) -> Iterator[_Entry]:
    """Yield an empty result for each topic, followed by the requested partitions of the topic."""
    for topic in topics:
        yield OffsetForLeaderTopicResult(topic=topic.topic)
        yield from topic.partitions


def _look_up(
    context: RequestContext, entries: Iterable[_Entry], response: OffsetForLeaderEpochResponse, *, is_follower: bool
) -> None:
    for entry in entries:
        if isinstance(entry, OffsetForLeaderTopicResult):
            response.topics.append(entry)
            continue
        topic = response.topics[-1]
        result = EpochEndOffset(partition=entry.partition)
        topic.partitions.append(result)
        try:
            if not is_follower:
                context.require_on_topic(Operation.DESCRIBE, topic.topic)
            partition = context.services.replicas.get(topic.topic, entry.partition)
            partition.require_leadership(entry.current_leader_epoch)
        except KafkaError as error:
            result.error_code = error.code
            continue
        end = partition.end_of_epoch(entry.leader_epoch)
        result.leader_epoch, result.end_offset = end.epoch, end.offset
