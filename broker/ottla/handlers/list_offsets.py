"""ListOffsets (api key 2, v1-v11): the offset at a time, or at an end of a partition's log.

v2 isolation level; v4 leader epochs; v6 flexible; v7 max timestamp (KIP-734); v8 earliest local (KIP-405); v9 latest
tiered; v10 timeout; v11 earliest pending upload. Nothing is tiered here: local answers equal the others, -5 is unknown.
Consumers are told of what is committed, followers (by their id) and debuggers (-2, also by a follower) of everything.
Source: ListOffsetsRequest.json; ReplicaManager.fetchOffset, UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import RequestContext, serves
from ottla.log.partition_log import TimestampAndOffset
from ottla.replication.partition import Partition
from ottla.types import Offset
from ottla.wire.acl_codes import Operation
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
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_CONSUMER = -1
_DEBUGGER = -2


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
                found = _look_up(context, request, topic.name, wanted)
            except KafkaError as error:
                answer.error_code = error.code
                continue
            answer.timestamp = found.timestamp_ms
            answer.offset = found.offset
            if context.api_version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
                answer.leader_epoch = found.leader_epoch
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _look_up(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> TimestampAndOffset:
    context.require_on_topic(Operation.DESCRIBE, topic)
    partition = context.services.replicas.get(topic, wanted.partition_index)
    if request.replica_id == _DEBUGGER:
        partition.require_epoch(wanted.current_leader_epoch)
    else:
        partition.require_leadership(wanted.current_leader_epoch)
    if wanted.timestamp < 0 and context.api_version < _FIRST_VERSION_OF.get(wanted.timestamp, _NO_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    if request.replica_id != _CONSUMER:
        return _find(partition, wanted.timestamp, log.log_end_offset)
    end = log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark
    found = _find(partition, wanted.timestamp, end)
    is_behind = partition.is_leader and partition.epoch_start_offset > log.high_watermark
    if is_behind and (wanted.timestamp == LATEST or (found is _UNKNOWN and wanted.timestamp >= 0)):
        # A new leader does not know yet how much its predecessor had committed: an offset from now might go back.
        can_say_so = context.api_version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if can_say_so else ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def _find(partition: Partition, timestamp: int, end: Offset) -> TimestampAndOffset:
    log = partition.log
    if timestamp == LATEST:
        return TimestampAndOffset(-1, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return TimestampAndOffset(-1, log.log_start_offset, partition.epoch_for_offset(log.log_start_offset))
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    elif timestamp < 0:
        found = None
    else:
        found = log.offset_for_timestamp(timestamp)
    return found if found is not None and found.offset < end else _UNKNOWN
