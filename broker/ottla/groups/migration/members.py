"""SyncGroup and Heartbeat of a classic member of a consumer group.

A member epoch below the assignment epoch, or partitions that it may have now, make a heartbeat start a rebalance of
this one member: it joins again within its rebalance timeout.

Source: GroupMetadataManager.classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup of Apache Kafka 4.3.
"""

from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.migration.consumer_protocol import encode_assignment, version_of
from ottla.wire.messages.group_log import ClassicMemberMetadata
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync_with_consumer_group(
    groups: ConsumerGroups, group: ConsumerGroup, request: SyncGroupRequest
) -> SyncGroupResponse:
    """Return what the coordinator has assigned to a member, in the version of the member's subscription.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
            REBALANCE_IN_PROGRESS: the member must join again.
    """
    member, metadata = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    first = metadata.supported_protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, first.name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member.member_epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        groups.await_join(group.group_id, member)
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    try:
        version = version_of(first.metadata)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    groups.end_sync(group.group_id, member.member_id)
    groups.renew_session(group.group_id, member)
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, version, groups.topics),
    )


def heartbeat_in_consumer_group(groups: ConsumerGroups, group: ConsumerGroup, request: HeartbeatRequest) -> ErrorCode:
    """Renew the session; return NONE, or REBALANCE_IN_PROGRESS.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; the session is not renewed.
    """
    member, _ = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    groups.renew_session(group.group_id, member)
    if not _must_join_again(group, member):
        return ErrorCode.NONE
    groups.await_join(group.group_id, member)
    return ErrorCode.REBALANCE_IN_PROGRESS


def _must_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    if member.member_epoch < group.assignment_epoch:
        return True
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not group.awaits_release(member)
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    member = group.identified_member(member_id, instance_id)
    if member.classic is None or not member.classic.supported_protocols:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
    if generation_id != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic
