"""AlterReplicaLogDirs (api key 34, v1-v2): move this node's replicas to other log directories (KIP-113).

v2 flexible. The response says that the moves have started; DescribeLogDirs shows their progress.
Source: AlterReplicaLogDirsRequest.json; ReplicaManager.alterReplicaLogDirs of Apache Kafka 4.3; KIP-1066 (cordoned).
"""

import logging

from ottla.errors import ErrorCode, KafkaError, StorageError
from ottla.handlers.api import RequestContext, serves
from ottla.log.future_logs import is_name_too_long
from ottla.purgatory.steps import Steps, batches
from ottla.quoting import one_line
from ottla.types import TopicPartition
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

logger = logging.getLogger(__name__)

_PARTITIONS_PER_STEP = 256


@serves(api_key=34, versions=range(1, 3))
def alter_replica_log_dirs(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> Steps[AlterReplicaLogDirsResponse]:
    """Start or end the move of each partition; of a partition that is named twice, the last directory counts."""
    is_allowed = context.may_on_cluster(Operation.ALTER)
    wanted: dict[str, dict[int, str]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            of_topic = wanted.setdefault(topic.name, {})
            for indexes in batches(topic.partitions, _PARTITIONS_PER_STEP):
                of_topic.update(dict.fromkeys(indexes, directory.path))
                yield None
            yield None
    response = AlterReplicaLogDirsResponse()
    for name in list(wanted):
        # Freed one by one: all at the end would be one stretch of the loop.
        paths = wanted.pop(name)
        result = AlterReplicaLogDirTopicResult(topic_name=name)
        response.results.append(result)
        for index, path in paths.items():
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            if is_allowed:
                code = _move(context, TopicPartition(name, index), path)
            result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
            yield None
        yield None
    return response


def _move(context: RequestContext, topic_partition: TopicPartition, path: str) -> ErrorCode:
    """Start the move, and return its error."""
    try:
        _start(context, topic_partition, path)
    except KafkaError as error:
        logger.debug("%s", one_line(f"{topic_partition} cannot be moved to {path}: {error}"))
        return error.code
    return ErrorCode.NONE


def _start(context: RequestContext, topic_partition: TopicPartition, path: str) -> None:
    """Start the move.

    Raises:
        KafkaError: the error of the response.
    """
    services = context.services
    if is_name_too_long(topic_partition):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
    offline = services.logs.offline_directories()
    if path in offline:
        raise StorageError(f"Log directory {path} is offline")
    if not services.logs.choice.is_configured(path):
        raise KafkaError(ErrorCode.LOG_DIR_NOT_FOUND, f"Log directory {path} is not found in the config.")
    if services.logs.choice.is_cordoned(path):
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"Log directory {path} is cordoned")
    try:
        partition = services.replicas.get(*topic_partition)
    except StorageError:
        raise
    except KafkaError as error:
        services.logs.choice.prefer(topic_partition, path)
        if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            # Kafka keeps this code for clients that are older than NOT_LEADER_OR_FOLLOWER.
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "the replica is on other nodes") from error
        raise
    services.replicas.moves.start(partition, path, may_create=not offline)
