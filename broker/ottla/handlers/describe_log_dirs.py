"""DescribeLogDirs (api key 35, v1-v5): this node's log directories and the size of the logs in them.

v2 flexible; v3 top-level error; v4 total and usable bytes (KIP-827); v5 cordoned directories (KIP-1066).
Source: DescribeLogDirsRequest.json; ReplicaManager.describeLogDirs of Apache Kafka 4.3.
"""

from typing import TypeAlias

from ottla.errors import ErrorCode, StorageError
from ottla.handlers.api import RequestContext, serves
from ottla.log.partition_log import PartitionLog
from ottla.purgatory.steps import Steps
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_PARTITIONS_PER_STEP = 32

_Described: TypeAlias = tuple[PartitionLog, PartitionLog | None]
"""A log; or the copy of a log that is being moved here, with that log."""
_ByDirectory: TypeAlias = dict[str, list[_Described]]


@serves(api_key=35, versions=range(1, 6))
def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> Steps[DescribeLogDirsResponse]:
    """List every directory, and size and lag of the requested topics' logs (all if none is named)."""
    if not context.may_on_cluster(Operation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    logs = context.services.logs
    by_directory = yield from _wanted_logs(context, request)
    response = DescribeLogDirsResponse()
    for path in logs.directory_ids():
        try:
            space = logs.space_of(path)
        except StorageError:
            continue  # it is among the offline ones now
        result = DescribeLogDirsResult(
            log_dir=path,
            total_bytes=space.total_bytes,
            usable_bytes=space.usable_bytes,
            is_cordoned=logs.choice.is_cordoned(path),
        )
        result.topics = yield from _describe(by_directory.get(path, []))
        response.results.append(result)
    for path in logs.offline_directories():
        response.results.append(DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path))
    return response


def _wanted_logs(context: RequestContext, request: DescribeLogDirsRequest) -> Steps[_ByDirectory]:
    """Return the requested logs, all if none is named, by directory; a copy with the log that is being moved."""
    logs = context.services.logs
    wanted: dict[TopicPartition, PartitionLog] = {}
    if request.topics is None:
        wanted.update((log.topic_partition, log) for log in logs.logs())
    for requested in request.topics or ():
        yield None
        for number, index in enumerate(requested.partitions, 1):
            log = logs.get(TopicPartition(requested.topic, index))
            if log is not None:
                wanted[log.topic_partition] = log
            if number % _PARTITIONS_PER_STEP == 0:
                yield None
    by_directory: _ByDirectory = {}
    for number, (partition, log) in enumerate(sorted(wanted.items(), key=_partition_of), 1):
        by_directory.setdefault(log.parent_directory, []).append((log, None))
        future = logs.futures.get(partition)
        if future is not None:
            by_directory.setdefault(future.parent_directory, []).append((future, log))
        if number % _PARTITIONS_PER_STEP == 0:
            yield None
    return by_directory


def _partition_of(found: tuple[TopicPartition, PartitionLog]) -> TopicPartition:
    return found[0]


def _describe(logs: list[_Described]) -> Steps[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, (log, original) in enumerate(logs, 1):
        topic, partition = log.topic_partition
        target = log.high_watermark if original is None else original.log_end_offset
        described = topics.get(topic)
        if described is None:
            described = topics[topic] = DescribeLogDirsTopic(name=topic)
        described.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition,
                partition_size=log.size_bytes,
                offset_lag=max(0, target - log.log_end_offset),
                is_future_key=original is not None,
            )
        )
        if number % _PARTITIONS_PER_STEP == 0:
            yield None
    return list(topics.values())
