"""OffsetCommit: validates the member and converts each offset to a record.

Source: OffsetMetadataManager.commitOffset, ClassicGroup.validateOffsetCommit; for other groups see
`member_check`.
"""

from typing import Final, Protocol, TypeAlias

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import NO_MEMBER_ID, ClassicGroup
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.config import GroupConfig
from ottla.groups.log import GroupRecord, offset_commit_record
from ottla.groups.offsets.member_check import CheckPartition, EpochGroup, any_partition, check_commit
from ottla.java_strings import string_length
from ottla.wire.messages.group_log import OffsetCommitValue
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND: Final = 9
NO_RETENTION_TIME: Final = -1
NOT_SET: Final = -1
CommitResult: TypeAlias = CoordinatorResult[GroupRecord, OffsetCommitResponse]


def commit_offsets(
    rebalancer: Rebalancer, epoch_group: EpochGroup | None, request: OffsetCommitRequest, api_version: int
) -> CommitResult:
    """Return the records that store the request's offsets, and the response for when they are committed.

    ``epoch_group``: the group with the request's id, if there is one that is not classic.

    Raises:
        KafkaError: nothing may be committed: GROUP_ID_NOT_FOUND (ILLEGAL_GENERATION before version 9),
            UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION or REBALANCE_IN_PROGRESS; for such a group
            UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or UNSUPPORTED_VERSION.
    """
    check_partition: CheckPartition = any_partition
    if epoch_group is not None:
        check_partition = check_commit(
            epoch_group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            epoch=request.generation_id_or_member_epoch,
            api_version=api_version,
        )
    else:
        _check(rebalancer, request, api_version)
    now_ms = rebalancer.clock.wall_ms()
    retention_ms = request.retention_time_ms
    expire_ms = NOT_SET if retention_ms == NO_RETENTION_TIME else now_ms + retention_ms
    result: CommitResult = CoordinatorResult(response=OffsetCommitResponse())
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            error = ErrorCode.NONE
            if is_metadata_too_large(partition.committed_metadata, rebalancer.config):
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                check_partition(topic.name, topic.topic_id, partition.partition_index)
                value = offset_commit_value(partition, now_ms, expire_ms)
                value.topic_id = topic.topic_id
                index = partition.partition_index
                result.records.append(offset_commit_record(request.group_id, topic.name, index, value))
            partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            )
        result.response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return result


def failed_commit(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Return the response that has ``error`` for every partition of ``request``."""
    response = OffsetCommitResponse()
    for topic in request.topics:
        partitions = [
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=int(error))
            for partition in topic.partitions
        ]
        response.topics.append(
            OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)
        )
    return response


def is_metadata_too_large(metadata: str | None, config: GroupConfig) -> bool:
    """Return whether metadata is longer than ``offset.metadata.max.bytes``, which limits characters as Java counts."""
    return string_length(metadata or "") > config.offset_metadata_max_bytes


class CommittedPartition(Protocol):
    """The partition of an OffsetCommit or a TxnOffsetCommit."""

    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def offset_commit_value(partition: CommittedPartition, now_ms: int, expire_ms: int = NOT_SET) -> OffsetCommitValue:
    """Return the value of the record that stores a partition's offset."""
    return OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_ms,
    )


def _check(rebalancer: Rebalancer, request: OffsetCommitRequest, api_version: int) -> None:
    """Allow commits by members of the current generation, and by any client while the group has no members."""
    generation_id = request.generation_id_or_member_epoch
    group = rebalancer.groups.get(request.group_id)
    if group is None:
        if generation_id >= 0:
            is_new = api_version >= FIRST_VERSION_WITH_GROUP_ID_NOT_FOUND
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
        # A consumer that assigns its partitions itself, or an administrator: replay creates the group.
        return
    if generation_id < 0 and group.is_empty:
        return
    _check_member(rebalancer, group, request)


def _check_member(rebalancer: Rebalancer, group: ClassicGroup, request: OffsetCommitRequest) -> None:
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and request.member_id == NO_MEMBER_ID and request.group_instance_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    rebalancer.renew_session(group, member)
