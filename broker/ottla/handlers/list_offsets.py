"""ListOffsets (api key 2, v1-v11): the offset at a time, or at an end of a partition's log.

v2 isolation level; v4 leader epochs; v6 flexible; v7 max timestamp (KIP-734); v8 earliest local (KIP-405); v9 latest
tiered; v10 timeout; v11 earliest pending upload. Nothing is tiered here: local answers equal the others, -5 is unknown.
Source: ListOffsetsRequest.json; ReplicaManager.fetchOffset, UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.log.partition_log import TimestampAndOffset
from ottla.replication.partition import Partition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_FIRST_VERSION_OF = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NO_VERSION = 1 << 15
_UNKNOWN = TimestampAndOffset(timestamp_ms=-1, offset=-1, leader_epoch=-1)
_READ_COMMITTED = 1
_FIRST_VERSION_WITH_LEADER_EPOCH = 4


@serves(api_key=2, versions=range(1, 12))
def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Look each partition up on its own; a partition named twice is refused."""
    counts: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            counts[key] = counts.get(key, 0) + 1
    response = ListOffsetsResponse()
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            answers.append(answer)
            try:
                if counts[topic.name, wanted.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                partition = context.services.replicas.get(topic.name, wanted.partition_index)
                partition.require_leadership(wanted.current_leader_epoch)
                found = _find(context, partition, wanted, read_committed=request.isolation_level == _READ_COMMITTED)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            answer.timestamp = found.timestamp_ms
            answer.offset = found.offset
            if context.api_version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
                answer.leader_epoch = found.leader_epoch
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _find(
    context: RequestContext, partition: Partition, wanted: ListOffsetsPartition, *, read_committed: bool
) -> TimestampAndOffset:
    log = partition.log
    end = log.last_stable_offset if read_committed else log.high_watermark
    if wanted.timestamp < 0 and context.api_version < _FIRST_VERSION_OF.get(wanted.timestamp, _NO_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if wanted.timestamp == LATEST:
        return TimestampAndOffset(-1, end, partition.leader_epoch)
    if wanted.timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampAndOffset(-1, log.log_start_offset, partition.epoch_for_offset(log.log_start_offset))
    if wanted.timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    elif wanted.timestamp < 0:
        found = None
    else:
        found = log.offset_for_timestamp(wanted.timestamp)
    return found if found is not None and found.offset < end else _UNKNOWN
