"""ListOffsets (api key 2, v1-v11): the offset at a time, or at an end of a partition's log.

v2 isolation level; v4 leader epochs; v6 flexible; v7 max timestamp (KIP-734); v8 earliest local (KIP-405); v9 latest
tiered; v10 timeout; v11 earliest pending upload. Nothing is tiered here: local offsets equal the others, -5 is unknown.
A duplicate partition has one result, INVALID_REQUEST, and duplicate topics are merged. Consumers see committed offsets
only, followers (by their id) and debuggers (-2, also by a follower) all offsets.
Source: ListOffsetsRequest.json; ReplicaManager.fetchOffset, UnifiedLog.fetchOffsetByTimestamp of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.handlers.api import HandlerResult, RequestContext, serves
from ottla.log.partition_log import TimestampAndOffset
from ottla.purgatory.steps import Steps, run_to_end
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
_END = TimestampAndOffset(timestamp_ms=-1, offset=-2, leader_epoch=-1)
_AT_HAND = frozenset({LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
_AT_ONCE_MAX = 50
"""Partitions without yielding; each takes some microseconds."""
_PER_SLICE_MAX = 20
_READ_COMMITTED = 1
_FIRST_VERSION_WITH_LEADER_EPOCH = 4
_FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
_CONSUMER = -1
_DEBUGGER = -2


@serves(api_key=2, versions=range(1, 12))
def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> HandlerResult:
    """Look up each partition by itself; in steps, unless all requested offsets are in memory."""
    steps = _list_offsets(context, request)
    is_small = len(request.topics) <= _AT_ONCE_MAX
    is_small = is_small and sum(len(topic.partitions) for topic in request.topics) <= _AT_ONCE_MAX
    if is_small and all(wanted.timestamp in _AT_HAND for topic in request.topics for wanted in topic.partitions):
        return run_to_end(steps)
    return steps


def _list_offsets(context: RequestContext, request: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    counts: dict[tuple[str, int], int] = {}
    counted = 0
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            counts[key] = counts.get(key, 0) + 1
            counted += 1
            if counted % _PER_SLICE_MAX == 0:
                yield None
    response = ListOffsetsResponse()
    responses_of: dict[str, list[ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        partition_responses = responses_of.get(topic.name)
        if partition_responses is None:
            partition_responses = responses_of[topic.name] = []
            response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partition_responses))
        for number, wanted in enumerate(topic.partitions):
            count = counts.pop((topic.name, wanted.partition_index), 0)
            if count:
                partition_responses.append(
                    (yield from _list_partition(context, request, topic.name, wanted, is_duplicate=count > 1))
                )
            if number % _PER_SLICE_MAX == 0:
                yield None
        yield None
    return response


def _list_partition(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
    *,
    is_duplicate: bool,
) -> Steps[ListOffsetsPartitionResponse]:
    partition_response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    try:
        if is_duplicate:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        found = yield from _look_up(context, request, topic, wanted)
    except KafkaError as error:
        partition_response.error_code = error.code
        return partition_response
    partition_response.timestamp = found.timestamp_ms
    partition_response.offset = found.offset
    if context.api_version >= _FIRST_VERSION_WITH_LEADER_EPOCH:
        partition_response.leader_epoch = found.leader_epoch
    return partition_response


def _look_up(
    context: RequestContext, request: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> Steps[TimestampAndOffset]:
    context.require_on_topic(Operation.DESCRIBE, topic)
    partition = context.services.replicas.get(topic, wanted.partition_index)
    if request.replica_id == _DEBUGGER:
        partition.require_epoch(wanted.current_leader_epoch)
    else:
        partition.require_leadership(wanted.current_leader_epoch)
    if wanted.timestamp < 0 and context.api_version < _FIRST_VERSION_OF.get(wanted.timestamp, _NO_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    found = yield from _find(context, partition, wanted.timestamp)
    if wanted.timestamp not in _AT_HAND:
        if not context.services.replicas.holds(partition):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if request.replica_id != _DEBUGGER:
            partition.require_leadership(wanted.current_leader_epoch)
    log = partition.log
    if request.replica_id != _CONSUMER:
        return _below(found, log.log_end_offset, partition)
    end = log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark
    found = _below(found, end, partition)
    is_behind = partition.is_leader and partition.isr.epoch_start_offset > log.high_watermark
    if is_behind and (wanted.timestamp == LATEST or (found is _UNKNOWN and wanted.timestamp >= 0)):
        # A new leader does not know its predecessor's high watermark yet: an offset returned now might go backwards.
        can_say_so = context.api_version >= _FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if can_say_so else ErrorCode.LEADER_NOT_AVAILABLE)
    return found


def _find(context: RequestContext, partition: Partition, timestamp: int) -> Steps[TimestampAndOffset | None]:
    """Return the requested offset; _END for the end that the client may see, None if there is no such offset."""
    log = partition.log
    if timestamp == LATEST:
        return _END
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start_offset = log.log_start_offset
        return TimestampAndOffset(-1, start_offset, partition.epoch_for_offset(start_offset))
    if timestamp == MAX_TIMESTAMP:
        return (yield from log.offset_of_max_timestamp(context.off_loop()))
    if timestamp < 0:
        return None
    return (yield from log.offset_for_timestamp(timestamp, context.off_loop()))


def _below(found: TimestampAndOffset | None, end: Offset, partition: Partition) -> TimestampAndOffset:
    """Return ``found`` if the client may see it (below ``end``), else the log's start."""
    if found is _END:
        return TimestampAndOffset(-1, end, partition.leader_epoch)
    if found is None or (found.offset >= end and found.timestamp_ms >= 0):
        return _UNKNOWN
    return found
