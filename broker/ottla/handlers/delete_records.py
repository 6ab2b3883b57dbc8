"""DeleteRecords (api key 21, v0-v2): raise partitions' log start offset; -1 means the high watermark. v2 flexible.

The response waits until every live replica has deleted as much.
Source: DeleteRecordsRequest.json; DelayedDeleteRecords and ReplicaManager.deleteRecords of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, values_in_steps
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
_PARTITIONS_PER_STEP = 256


@serves(api_key=21, versions=range(0, 3))
def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> Steps[HandlerResult]:
    """Delete in each partition on its own; internal topics are never touched."""
    deadline_ms = context.received_at_ms + request.timeout_ms
    results: dict[str, list[Delayed[DeleteRecordsPartitionResult]]] = {}
    for topic in request.topics:
        of_topic = results.setdefault(topic.name, [])
        # The last offset of a duplicate partition counts, as in Kafka.
        yield None
        latest: dict[int, DeleteRecordsPartition] = {}
        for number, each in enumerate(topic.partitions, 1):
            latest[each.partition_index] = each
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
        for wanted in latest.values():
            try:
                partition, offset = _delete(context, topic.name, wanted)
            except KafkaError as error:
                of_topic.append(Delayed.of(_result(wanted.partition_index, error=error.code)))
            else:
                of_topic.append(_when_deleted(context, partition, offset, deadline_ms))
            yield None
    response = DeleteRecordsResponse()
    if len(results) == 1 and len(of_topic) == 1:
        (name,), (only,) = results, of_topic
        return only.then(
            lambda result: DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=name, partitions=[result])])
        )
    for name in list(results):
        yield None
        # Removed one by one: freeing 45,000 lists at once takes milliseconds.
        partitions = yield from values_in_steps(results.pop(name))
        response.topics.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return response


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


def _when_deleted(
    context: RequestContext, partition: Partition, offset: Offset, deadline_ms: int
) -> Delayed[DeleteRecordsPartitionResult]:
    """Return the result once every replica has deleted, another node leads, or the request times out."""
    index = partition.topic_partition.partition

    def try_complete() -> DeleteRecordsPartitionResult | None:
        if not partition.is_leader:
            return _result(index, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        low_watermark = partition.low_watermark
        return _result(index, low_watermark=low_watermark) if low_watermark >= offset else None

    return context.services.replicas.delete_purgatory.watch(
        [partition.topic_partition],
        deadline_ms=deadline_ms,
        try_complete=try_complete,
        on_deadline=lambda: _result(index, error=ErrorCode.REQUEST_TIMED_OUT, low_watermark=partition.low_watermark),
    )


def _result(
    index: int, *, error: ErrorCode = ErrorCode.NONE, low_watermark: Offset = -1
) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error)
