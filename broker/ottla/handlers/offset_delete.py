"""OffsetDelete (api key 47, v0): forget a group's offsets for some partitions (KIP-496).

Not done: authorization. Source: OffsetDeleteRequest.json; KafkaApis.handleOffsetDeleteRequest of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode
from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


@serves(api_key=47, versions=range(0, 1))
def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> Delayed[OffsetDeleteResponse]:
    """Answer for topics that do not exist; ask the coordinator about the others."""
    metadata = context.services.metadata
    unknown = [topic for topic in request.topics if metadata.topic(topic.name) is None]
    request.topics = [topic for topic in request.topics if topic not in unknown]

    def answer(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code == ErrorCode.NONE:
            response.topics = [*map(_unknown_topic, unknown), *response.topics]
        return response

    return context.services.groups.delete_offsets(request).then(answer)


def _unknown_topic(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic:
    error = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in topic.partitions
        ],
    )
