"""DeleteRecords (api key 21, v0-v2): raise partitions' log start offset; -1 means the high watermark. v2 flexible.

Source: DeleteRecordsRequest.json; ReplicaManager.deleteRecords of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.types import INTERNAL_TOPICS, Offset
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_TO_HIGH_WATERMARK = -1


@serves(api_key=21, versions=range(0, 3))
def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete in each partition on its own; internal topics are never touched."""
    response = DeleteRecordsResponse()
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
            try:
                result.low_watermark = _delete(context, topic.name, wanted)
            except KafkaError as error:
                result.error_code = error.code
            results.append(result)
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return response


def _delete(context: RequestContext, topic: str, wanted: DeleteRecordsPartition) -> Offset:
    """Delete before the wanted offset; return the new log start offset."""
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = context.services.replicas.get(topic, wanted.partition_index)
    partition.require_leadership()
    log = partition.log
    if log.config.is_compacted and not log.config.is_deleted:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if wanted.offset == _TO_HIGH_WATERMARK else wanted.offset
    if offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.delete_records_before(offset)
    return log.log_start_offset
