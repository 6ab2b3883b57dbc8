"""SyncGroup for classic groups: the leader's assignments are stored, then every member receives its own.

Source: GroupMetadataManager.classicGroupSync.
"""

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.records import record_of
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.result import GroupResult
from ottla.purgatory import Delayed
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def sync(rebalancer: Rebalancer, request: SyncGroupRequest, response: Delayed[SyncGroupResponse]) -> GroupResult | None:
    """Handle a member's SyncGroup; ``response`` completes now, or when the assignments are stored."""
    group = rebalancer.groups.get(request.group_id)
    try:
        group = _check(group, request)
    except KafkaError as error:
        response.complete(SyncGroupResponse(error_code=int(error.code)))
        return None
    member = group.members[request.member_id]
    rebalancer.record_sync(group, member.member_id)
    if group.state is ClassicGroupState.STABLE:
        response.complete(
            SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
            )
        )
        return None
    replaced, member.awaiting_sync = member.awaiting_sync, response
    if replaced is not None:
        # The member has sent the request again over another connection; the first response is no longer read.
        replaced.complete(SyncGroupResponse(error_code=int(ErrorCode.REBALANCE_IN_PROGRESS)))
    return _store_assignments(rebalancer, group, request) if group.leader_id == request.member_id else None


def _check(group: ClassicGroup | None, request: SyncGroupRequest) -> ClassicGroup:
    if group is None or group.is_empty:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for requested, selected in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if requested is not None and requested != selected:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return group


def _store_assignments(rebalancer: Rebalancer, group: ClassicGroup, request: SyncGroupRequest) -> GroupResult:
    """Write the group with its assignments; it becomes Stable when they are committed."""
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    generation_id = group.generation_id

    def on_append(error: ErrorCode) -> GroupResult | None:
        # Meanwhile a member may have joined: then the assignments are obsolete.
        if group.state is not ClassicGroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return None
        if error is not ErrorCode.NONE:
            rebalancer.fail_sync(group, error)
            return rebalancer.rebalance_or_complete_join(group, f"its assignments could not be stored: {error.name}")
        rebalancer.assign(group, assignments)
        group.transition_to(ClassicGroupState.STABLE, wall_ms=rebalancer.clock.wall_ms())
        return None

    return CoordinatorResult(
        records=[record_of(group, assignments)], response=None, is_replayed=False, on_append=on_append
    )
