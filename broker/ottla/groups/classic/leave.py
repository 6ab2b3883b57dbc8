"""LeaveGroup for classic groups: members leave, or an administrator removes them by member or instance id.

Source: GroupMetadataManager.classicGroupLeave; KIP-345 (several members, instance ids), KIP-800 (reasons).
"""

import logging

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import NO_MEMBER_ID, ClassicGroup
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.log import GroupRecord
from ottla.groups.result import GroupResult
from ottla.quoting import quoted
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

log = logging.getLogger(__name__)


def leave(rebalancer: Rebalancer, request: LeaveGroupRequest) -> CoordinatorResult[GroupRecord, LeaveGroupResponse]:
    """Remove the members of ``request.members``, each with an error of its own."""
    group = rebalancer.groups.get(request.group_id)
    members = []
    left = []
    for identity in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _leave(rebalancer, group, identity)
        if error is ErrorCode.NONE:
            left.append(identity.member_id or identity.group_instance_id or "")
        members.append(
            MemberResponse(
                member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=int(error)
            )
        )
    response = LeaveGroupResponse(members=members)
    result: GroupResult | None = None
    if group is not None and left:
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            result = rebalancer.rebalance_or_complete_join(group, f"{quoted(', '.join(left))} left")
        else:
            result = rebalancer.maybe_complete_join(group)
    return CoordinatorResult(response=response) if result is None else result.with_response(response)


def _leave(rebalancer: Rebalancer, group: ClassicGroup, identity: MemberIdentity) -> ErrorCode:
    """Remove one member; return its error code."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id in group.pending_join:
        rebalancer.remove_member(group, member_id)
        return ErrorCode.NONE
    if member_id == NO_MEMBER_ID:
        # An administrator knows instance ids, not member ids.
        member_id = group.static_members.get(instance_id or "", NO_MEMBER_ID)
    try:
        group.check_member(member_id, instance_id)
    except KafkaError as error:
        return error.code
    log.info(
        "Group %s: %s leaves; it says: %s",
        quoted(group.group_id),
        quoted(member_id),
        quoted(identity.reason or "not provided"),
    )
    rebalancer.remove_member(group, member_id)
    return ErrorCode.NONE
