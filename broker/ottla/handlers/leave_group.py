"""LeaveGroup (api key 13, v0-v5): members leave a classic group, or are removed by an administrator.

v1 throttle time; v3 several members, also by group instance id (KIP-345); v4 flexible; v5 reason (KIP-800).
Source: LeaveGroupRequest.json; LeaveGroupResponse of Apache Kafka 4.3.
"""

from ottla.handlers.api import RequestContext, serves
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps, values_in_steps
from ottla.wire.acl_codes import Operation
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

_FIRST_VERSION_WITH_MEMBERS = 3
_MEMBERS_PER_STEP = 32


@serves(api_key=13, versions=range(0, 6))
def leave_group(
    context: RequestContext, request: LeaveGroupRequest
) -> Delayed[LeaveGroupResponse] | Steps[LeaveGroupResponse]:
    """Remove the members that the request names, very many of them in slices."""
    context.require_on_group(Operation.READ, request.group_id)
    if context.api_version < _FIRST_VERSION_WITH_MEMBERS:
        request.members = [MemberIdentity(member_id=request.member_id)]
        return context.services.groups.leave_group(request).then(_of_one_member)
    if len(request.members) <= _MEMBERS_PER_STEP:
        return context.services.groups.leave_group(request)
    return _leave_in_steps(context, request)


def _leave_in_steps(context: RequestContext, request: LeaveGroupRequest) -> Steps[LeaveGroupResponse]:
    left: list[Delayed[LeaveGroupResponse]] = []
    for start in range(0, len(request.members), _MEMBERS_PER_STEP):
        some = request.members[start : start + _MEMBERS_PER_STEP]
        left.append(context.services.groups.leave_group(LeaveGroupRequest(group_id=request.group_id, members=some)))
        yield None
    merged = LeaveGroupResponse()
    for response in (yield from values_in_steps(left)):
        yield None
        if response.error_code:
            # Without members it is the error of the whole request.
            return response
        merged.members += response.members
    return merged


def _of_one_member(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Return the member's error as that of the whole response, which has no other field for it."""
    error_code = response.error_code or next((member.error_code for member in response.members), 0)
    return LeaveGroupResponse(error_code=error_code)
