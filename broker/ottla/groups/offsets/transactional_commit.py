"""TxnOffsetCommit: validates the member and converts each offset to a record of the producer's transaction (KIP-447).

Source: OffsetMetadataManager.commitTransactionalOffset, ClassicGroup.validateOffsetCommit.
"""

from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import NO_MEMBER_ID
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.config import GroupConfig
from ottla.groups.log import GroupRecord, offset_commit_record
from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.offsets.commit import is_metadata_too_large, offset_commit_value
from ottla.groups.offsets.member_check import CheckPartition, EpochGroup, any_partition, check_commit
from ottla.ports import Clock
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_VERSION_THAT_RETRIES_LOADING: Final = 2


def commit_transactional_offsets(
    rebalancer: Rebalancer,
    topics: ClusterTopics,
    epoch_group: EpochGroup | None,
    request: TxnOffsetCommitRequest,
    api_version: int,
) -> CoordinatorResult[GroupRecord, TxnOffsetCommitResponse]:
    """Return the records that store the request's offsets, and the response for when they are committed.

    ``epoch_group``: the group with the request's id, if there is one that is not classic.

    Raises:
        KafkaError: nothing may be committed: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or
            ILLEGAL_GENERATION.
    """
    if epoch_group is not None:
        return _commit_by_epoch(rebalancer, topics, epoch_group, request, api_version)
    _check(rebalancer, request)
    return _commit(rebalancer.config, rebalancer.clock, request, any_partition)


def _commit_by_epoch(
    rebalancer: Rebalancer,
    topics: ClusterTopics,
    group: EpochGroup,
    request: TxnOffsetCommitRequest,
    api_version: int,
) -> CoordinatorResult[GroupRecord, TxnOffsetCommitResponse]:
    """Commit as a member that has an epoch; producers know ILLEGAL_GENERATION for a member epoch that is stale."""
    try:
        check_partition = check_commit(
            group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id,
            api_version=api_version,
            is_transactional=True,
        )

        def check_by_name(topic: str, _: Uuid, partition: int) -> None:
            check_partition(topic, topics.id_of(topic) or ZERO_UUID, partition)

        return _commit(rebalancer.config, rebalancer.clock, request, check_by_name)
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error
        raise


def _commit(
    config: GroupConfig, clock: Clock, request: TxnOffsetCommitRequest, check_partition: CheckPartition
) -> CoordinatorResult[GroupRecord, TxnOffsetCommitResponse]:
    now_ms = clock.wall_ms()
    result: CoordinatorResult[GroupRecord, TxnOffsetCommitResponse] = CoordinatorResult(
        response=TxnOffsetCommitResponse()
    )
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            index, error = partition.partition_index, ErrorCode.NONE
            if is_metadata_too_large(partition.committed_metadata, config):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                check_partition(topic.name, ZERO_UUID, index)
                value = offset_commit_value(partition, now_ms)
                result.records.append(offset_commit_record(request.group_id, topic.name, index, value))
            partitions.append(TxnOffsetCommitResponsePartition(partition_index=index, error_code=int(error)))
        result.response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return result


def failed_transactional_commit(
    request: TxnOffsetCommitRequest, error: ErrorCode, api_version: int
) -> TxnOffsetCommitResponse:
    """Return the response that has ``error`` for every partition of ``request``."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < _FIRST_VERSION_THAT_RETRIES_LOADING:
        # Producers before Kafka 2.0 fail on it.
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = TxnOffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            for partition in topic.partitions
        ]
        response.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    return response


def _check(rebalancer: Rebalancer, request: TxnOffsetCommitRequest) -> None:
    """Allow producers that name a member of the current generation, and those that name none.

    Other than for OffsetCommit, a producer without group metadata may commit while the group has members, and a member
    during a rebalance; the commit does not renew the member's session.
    """
    group = rebalancer.groups.get(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return
    if request.generation_id < 0 and group.is_empty:
        return
    names_member = request.member_id != NO_MEMBER_ID or request.group_instance_id is not None
    if request.generation_id >= 0 or names_member:
        group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
