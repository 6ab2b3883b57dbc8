"""OffsetDelete (api key 47, v0): forget a group's offsets for some partitions (KIP-496).

Source: OffsetDeleteRequest.json; KafkaApis.handleOffsetDeleteRequest of Apache Kafka 4.3.
"""

from collections.abc import Iterator

from ottla.errors import ErrorCode
from ottla.handlers.api import Answer, RequestContext, serves
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
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Steps[Answer]:
    """Answer for partitions that do not exist; ask the coordinator about the others."""
    context.require_on_group(Operation.DELETE, request.group_id)
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        refused.setdefault(topic.name, []).extend((yield from _take_unknown(context, topic)))
        yield None

    deleted: list[Delayed[OffsetDeleteResponse]] = []
    for piece in _pieces(request.topics):
        asked = OffsetDeleteRequest(group_id=request.group_id, topics=piece)
        deleted.append(context.services.groups.delete_offsets(asked))
        yield None
    if len(deleted) == 1:
        return deleted[0].then(lambda response: _merge(refused, [response]))
    return (yield from _merge(refused, (yield from values_in_steps(deleted))))


def _pieces(topics: list[OffsetDeleteRequestTopic]) -> Iterator[list[OffsetDeleteRequestTopic]]:
    """Yield the topics in parts, at least one: each offset is deleted for itself, as in Kafka."""
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
    refused: dict[str, list[OffsetDeleteResponsePartition]], responses: list[OffsetDeleteResponse]
) -> Steps[OffsetDeleteResponse]:
    """Return the parts' answers as one, in which a topic comes once; the first error is that of the whole."""
    topics: dict[str, OffsetDeleteResponseTopic] = {}
    responses.reverse()
    while responses:
        # Taken out one by one, as below: to free 45,000 topics or lists at once takes milliseconds.
        response = responses.pop()
        if response.error_code != ErrorCode.NONE:
            while refused:
                yield from free_in_steps([refused.popitem()[1]])
            return response
        for topic in response.topics:
            topics.setdefault(topic.name, OffsetDeleteResponseTopic(name=topic.name)).partitions += topic.partitions
        yield None
    for number, (name, topic) in enumerate(topics.items(), 1):
        topic.partitions += refused.pop(name)
        if number % _TOPICS_PER_STEP == 0:
            yield None
    return OffsetDeleteResponse(topics=list(topics.values()))


def _take_unknown(
    context: RequestContext, topic: OffsetDeleteRequestTopic
) -> Steps[list[OffsetDeleteResponsePartition]]:
    """Take the partitions away from ``topic`` that do not exist: return their answers."""
    metadata = context.services.metadata
    is_allowed = context.may_on_topic(Operation.READ, topic.name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known, refused = [], []
    for number, partition in enumerate(topic.partitions):
        if number % ITEMS_PER_STEP == 0:
            yield None
        index = partition.partition_index
        if not is_allowed or metadata.partition(TopicPartition(topic.name, index)) is None:
            refused.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        else:
            known.append(partition)
    topic.partitions = known
    return refused
