"""OffsetDelete (api key 47, v0): forget a group's offsets for some partitions (KIP-496).

Source: OffsetDeleteRequest.json; KafkaApis.handleOffsetDeleteRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
)


@serves(api_key=47, versions=range(0, 1))
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
    """Answer for partitions that do not exist; ask the coordinator about the others."""
    context.require_on_group(Operation.DELETE, request.group_id)
    refused = {topic.name: _take_unknown(context, topic) for topic in request.topics}

    def answer(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            for topic in response.topics:
                topic.partitions += refused[topic.name]
        return response

    return context.services.groups.delete_offsets(request).then(answer)


def _take_unknown(context: RequestContext, topic: OffsetDeleteRequestTopic) -> list[OffsetDeleteResponsePartition]:
    """Take the partitions away from ``topic`` that do not exist: return their answers."""
    metadata = context.services.metadata
    is_allowed = context.may_on_topic(Operation.READ, topic.name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known, refused = [], []
    for partition in topic.partitions:
        index = partition.partition_index
        if not is_allowed or metadata.partition(TopicPartition(topic.name, index)) is None:
            refused.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
        else:
            known.append(partition)
    topic.partitions = known
    return refused
