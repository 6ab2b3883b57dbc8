"""OffsetDelete (api key 47, v0): delete a group's offsets of some partitions (KIP-496).

Source: OffsetDeleteRequest.json; KafkaApis.handleOffsetDeleteRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory import Delayed
from ottla.purgatory.steps import ITEMS_PER_STEP, Steps, values_in_steps
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.codec.disposal import free_in_steps
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_PARTITIONS_PER_PIECE = 128
_TOPICS_PER_STEP = 64


@serves(api_key=47, versions=range(0, 1))
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Steps[HandlerResult]:
    """Return errors for partitions that do not exist; forward the others to the coordinator."""
    context.require_on_group(Operation.DELETE, request.group_id)
    unknown: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        unknown.setdefault(topic.name, []).extend((yield from _split_unknown_partitions(context, topic)))
        yield None

    deleted: list[Delayed[OffsetDeleteResponse]] = []
    for piece in _pieces(request.topics):
        delete_request = OffsetDeleteRequest(group_id=request.group_id, topics=piece)
        deleted.append(context.services.groups.delete_offsets(delete_request))
        yield None
    if len(deleted) == 1:
        return deleted[0].then(lambda response: _merge(unknown, [response]))
    return (yield from _merge(unknown, (yield from values_in_steps(deleted))))


def _pieces(topics: list[OffsetDeleteRequestTopic]) -> Iterator[list[OffsetDeleteRequestTopic]]:
    """Yield the topics in parts, at least one: offsets are independent of each other, as in Kafka."""
    piece: list[OffsetDeleteRequestTopic] = []
    cost = 0
    for topic in topics:
        for start in range(0, max(len(topic.partitions), 1), _PARTITIONS_PER_PIECE):
            part = topic.partitions[start : start + _PARTITIONS_PER_PIECE]
            if piece and cost + len(part) >= _PARTITIONS_PER_PIECE:
                yield piece
                piece, cost = [], 0
            piece.append(OffsetDeleteRequestTopic(name=topic.name, partitions=part))
            cost += len(part) + 1
    yield piece


def _merge(
    unknown: dict[str, list[OffsetDeleteResponsePartition]], responses: list[OffsetDeleteResponse]
) -> Steps[OffsetDeleteResponse]:
    """Return the parts' responses as one, each topic once; the first error is that of the whole."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    responses.reverse()
    while responses:
        # Removed one by one, as below: freeing 45,000 topics or lists at once takes milliseconds.
        response = responses.pop()
        if response.error_code != ErrorCode.NONE:
            while unknown:
                yield from free_in_steps([unknown.popitem()[1]])
            return response
        for topic in response.topics:
            topics.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name)).partitions += topic.partitions
        yield None
    for number, (name, topic) in enumerate(topics.items(), 1):
        topic.partitions += unknown.pop(name)
        if number % _TOPICS_PER_STEP == 0:
            yield None
    return OffsetDeleteResponse(topics=list(topics.values()))


def _split_unknown_partitions(
    context: RequestContext, topic: OffsetDeleteRequestTopic
) -> Steps[list[OffsetDeleteResponsePartition]]:
    """Remove the partitions of ``topic`` that do not exist, and return their errors."""
    metadata = context.services.metadata
    is_allowed = context.may_on_topic(Operation.READ, topic.name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known, unknown = [], []
    for number, partition in enumerate(topic.partitions):
        if number % ITEMS_PER_STEP == 0:
            yield None
        index = partition.partition_index
        if not is_allowed or metadata.partition(TopicPartition(topic.name, index)) is None:
            unknown.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        else:
            known.append(partition)
    topic.partitions = known
    return unknown
