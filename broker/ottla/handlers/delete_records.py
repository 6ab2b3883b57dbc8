"""DeleteRecords (api key 21, v0-v2): raise partitions' log start offset; -1 means the high watermark. v2 flexible.

Answered once every replica that is alive has deleted as much.
Source: DeleteRecordsRequest.json; DelayedDeleteRecords and ReplicaManager.deleteRecords of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import Answer, RequestContext, serves
from ottla.purgatory.steps import Steps
from ottla.replication.partition import Partition
from ottla.types import INTERNAL_TOPICS, Offset
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_TO_HIGH_WATERMARK = -1


_Waiting = list[tuple[Partition, Offset, DeleteRecordsPartitionResult]]


@serves(api_key=21, versions=range(0, 3))
def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> Steps[Answer]:
    """Delete in each partition on its own; internal topics are never touched."""
    response = DeleteRecordsResponse()
    waiting: _Waiting = []
    for topic in request.topics:
        results = []
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
            results.append(result)
            try:
                partition, offset = _delete(context, topic.name, wanted)
            except KafkaError as error:
                result.error_code = error.code
            else:
                waiting.append((partition, offset, result))
            yield None
        response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    return context.services.replicas.delete_purgatory.watch(
        [partition.topic_partition for partition, _, _ in waiting],
        deadline_ms=context.received_at_ms + request.timeout_ms,
        try_complete=lambda: response if _settle(waiting) else None,
        on_deadline=lambda: _time_out(response, waiting),
    )


def _delete(context: RequestContext, topic: str, wanted: DeleteRecordsPartition) -> tuple[Partition, Offset]:
    """Delete before the wanted offset; return the partition and the offset that all replicas are to start at."""
    context.require_on_topic(Operation.DELETE, topic)
    if topic in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
    replicas = context.services.replicas
    partition = replicas.get(topic, wanted.partition_index)
    partition.require_leadership()
    log = partition.log
    if log.config.is_compacted and not log.config.is_deleted:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    offset = log.high_watermark if wanted.offset == _TO_HIGH_WATERMARK else wanted.offset
    if offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.delete_records_before(offset)
    replicas.on_log_start_raised(partition.topic_partition)
    return partition, offset


def _settle(waiting: _Waiting) -> bool:
    """Settle where every replica has deleted, or another node leads; return whether nothing waits any more."""
    still = []
    for partition, offset, result in waiting:
        if not partition.is_leader:
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif partition.low_watermark >= offset:
            result.low_watermark = partition.low_watermark
        else:
            still.append((partition, offset, result))
    waiting[:] = still
    return not still


def _time_out(response: DeleteRecordsResponse, waiting: _Waiting) -> DeleteRecordsResponse:
    for partition, _, result in waiting:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        result.low_watermark = partition.low_watermark
    return response
