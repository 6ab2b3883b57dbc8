"""Members that leave: by ConsumerGroupHeartbeat with epoch -1 or -2, or removed by LeaveGroup.

Source: GroupMetadataManager.consumerGroupLeave, classicGroupLeaveToConsumerGroup of Apache Kafka 4.3; KIP-345, KIP-848.
"""

import logging
from dataclasses import replace

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.member import NO_PARTITIONS, ConsumerMember
from ottla.groups.consumer.records import current_assignment_record
from ottla.groups.log import GroupRecord
from ottla.groups.modern.member_epochs import LEAVE_STATIC_EPOCH
from ottla.quoting import quoted
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

log = logging.getLogger(__name__)


def leave(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest
) -> CoordinatorResult[GroupRecord, ConsumerGroupHeartbeatResponse]:
    """Remove a member; a static one that leaves with epoch -2 keeps its partitions until its session is over.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    group = groups.group(request.group_id)
    member = group.identified_member(request.member_id, request.instance_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    log.info("Group %s: %s leaves", quoted(group.group_id), quoted(member.member_id))
    if request.instance_id is None or request.member_epoch != LEAVE_STATIC_EPOCH:
        return groups.remove_member(group, member, response)
    # The epochs of its partitions are 0: whatever it commits when it is back is newer.
    away = replace(
        member,
        member_epoch=LEAVE_STATIC_EPOCH,
        assigned={topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()},
        pending_revocation=NO_PARTITIONS,
    )
    return CoordinatorResult(records=[current_assignment_record(group.group_id, away)], response=response)


def remove_by_leave_group(
    groups: ConsumerGroups, group: ConsumerGroup, request: LeaveGroupRequest
) -> CoordinatorResult[GroupRecord, LeaveGroupResponse]:
    """Remove the members that an administrator names in a LeaveGroup, by member or instance id."""
    removed: dict[str, ConsumerMember] = {}
    responses = []
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            member = _identified(group, identity)
            removed[member.member_id] = member
            log.info(
                "Group %s: %s is removed by LeaveGroup; it says: %s",
                quoted(group.group_id),
                quoted(member.member_id),
                quoted(identity.reason or "not provided"),
            )
        except KafkaError as rejection:
            error = rejection.code
        responses.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=int(error)
            )
        )
    return groups.remove_members(group, list(removed.values()), LeaveGroupResponse(members=responses))


def _identified(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is not None and not identity.member_id:
        # An administrator knows instance ids, not member ids.
        current = group.static_member(instance_id)
        return group.identified_member(current.member_id if current is not None else "", instance_id)
    return group.identified_member(identity.member_id, instance_id)
