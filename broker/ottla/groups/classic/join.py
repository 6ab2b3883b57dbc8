"""JoinGroup for classic groups: admission of members, and the rebalances that they start.

Source: GroupMetadataManager.classicGroupJoin*; KIP-345 (static members), KIP-394 (member ids before members),
KIP-814 (a returning static leader may skip the assignment).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import NO_MEMBER_ID, ClassicGroup, join_error_response
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.records import new_group_record, record_of
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.client import Client
from ottla.groups.result import GroupResult
from ottla.purgatory import Delayed
from ottla.quoting import quoted
from ottla.types import Uuid
from ottla.wire.codec.primitives import STRING_BYTES_MAX
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse

FIRST_VERSION_WITH_REQUIRED_MEMBER_ID: Final = 4
FIRST_VERSION_WITH_SKIP_ASSIGNMENT: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup in progress.

    Attributes:
        response: completes now or when the join phase ends.
        subscription: of a member of a consumer group, if it was decoded already.
    """

    client: Client
    api_version: int
    request: JoinGroupRequest
    response: Delayed[JoinGroupResponse]
    subscription: ConsumerProtocolSubscription | None = None

    def reject(self, error: ErrorCode, member_id: str) -> None:
        self.response.complete(join_error_response(error, member_id))


def join(rebalancer: Rebalancer, joining: Join) -> GroupResult | None:
    """Let a member join; a new group is created only for a member without an id."""
    request = joining.request
    is_new_group = request.group_id not in rebalancer.groups
    if is_new_group and request.member_id != NO_MEMBER_ID:
        joining.reject(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        return None
    group = rebalancer.get_or_create(request.group_id)
    if not _accepts_joining_member(rebalancer, group, request.member_id):
        rebalancer.remove_member(group, request.member_id)
        joining.reject(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER_ID)
        result = None
    elif not group.supports(request.protocol_type, request.protocols):
        joining.reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        result = None
    elif request.member_id == NO_MEMBER_ID:
        result = _join_new_member(rebalancer, group, joining)
    else:
        result = _join_known_member(rebalancer, group, joining)
    if is_new_group and result is None:
        return CoordinatorResult(
            records=[new_group_record(group)],
            response=None,
            is_replayed=False,
            on_append=_discard_on_error(rebalancer, joining),
        )
    return result


def _discard_on_error(rebalancer: Rebalancer, joining: Join) -> Callable[[ErrorCode], None]:
    def on_append(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            joining.reject(error, NO_MEMBER_ID)
            rebalancer.discard_group(joining.request.group_id)

    return on_append


def _accepts_joining_member(rebalancer: Rebalancer, group: ClassicGroup, member_id: str) -> bool:
    """Return whether ``group.max.size`` admits the member."""
    if group.is_empty:
        return True
    member = group.members.get(member_id)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        # Count rejoined members only: a group that is too large loses the members that rejoin last.
        is_waiting = member is not None and member.awaiting_join is not None
        return is_waiting or group.awaiting_join_count < rebalancer.config.max_size
    return member is not None or len(group.members) < rebalancer.config.max_size


def _join_new_member(rebalancer: Rebalancer, group: ClassicGroup, joining: Join) -> GroupResult | None:
    request = joining.request
    instance_id = request.group_instance_id
    prefix = joining.client.client_id if instance_id is None else instance_id
    member_id = new_member_id(prefix, rebalancer.random.uuid())
    if len(member_id.encode()) > STRING_BYTES_MAX:
        joining.reject(ErrorCode.INVALID_REQUEST, NO_MEMBER_ID)
        return None
    if instance_id is not None:
        current_id = group.static_members.get(instance_id)
        if current_id is not None:
            return _replace_static_member(rebalancer, group, joining, current_id, member_id)
        return _add_member(rebalancer, group, joining, member_id)
    if joining.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
        # Only a client that sends the id that it received becomes a member: retries leave no dead members behind.
        rebalancer.await_pending_member(group, member_id, request.session_timeout_ms)
        joining.reject(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return None
    return _add_member(rebalancer, group, joining, member_id)


def new_member_id(prefix: str, uuid: Uuid) -> str:
    """Return Kafka's form of a member id: client or instance id, and an id in hexadecimal."""
    digits = uuid.hex()
    return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _join_known_member(rebalancer: Rebalancer, group: ClassicGroup, joining: Join) -> GroupResult | None:
    request = joining.request
    member_id = request.member_id
    if member_id in group.pending_join and request.group_instance_id is None:
        return _add_member(rebalancer, group, joining, member_id)
    try:
        member = group.check_member(member_id, request.group_instance_id)
    except KafkaError as error:
        joining.reject(error.code, member_id)
        return None
    state = group.state
    is_leader = group.leader_id == member_id
    is_unchanged = request.protocols == member.protocols
    if state is ClassicGroupState.COMPLETING_REBALANCE and is_unchanged:
        # Most likely the response was lost: send it again.
        members = group.members_for_leader() if is_leader else []
        joining.response.complete(rebalancer.join_response(group, member_id, members=members))
        return None
    if state is ClassicGroupState.STABLE and is_unchanged and not is_leader:
        joining.response.complete(rebalancer.join_response(group, member_id))
        return None
    # A leader may rejoin with unchanged metadata: it has detected a change of the topics themselves.
    _update(group, member, joining)
    who = "leader" if is_leader else "member"
    return rebalancer.rebalance_or_complete_join(
        group, f"{who} {quoted(member_id)} rejoins; it says: {_reason(request)}"
    )


def _add_member(rebalancer: Rebalancer, group: ClassicGroup, joining: Join, member_id: str) -> GroupResult | None:
    request = joining.request
    member = ClassicMember(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=joining.client.client_id,
        client_host=joining.client.host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=request.protocols,
        is_new=True,
    )
    is_first_rebalance = group.state is ClassicGroupState.PREPARING_REBALANCE
    if is_first_rebalance and group.previous_state is ClassicGroupState.EMPTY:
        group.new_member_added = True
    group.add(member, joining.response)
    # A new member cannot send heartbeats, and a lost connection would go unnoticed while it waits: limit the wait.
    rebalancer.renew_session(group, member, rebalancer.config.new_member_join_timeout_ms)
    return rebalancer.rebalance_or_complete_join(group, f"new member {quoted(member_id)}; it says: {_reason(request)}")


def _replace_static_member(
    rebalancer: Rebalancer, group: ClassicGroup, joining: Join, old_id: str, new_id: str
) -> GroupResult | None:
    """Replace the member id of a restarted static member, without a rebalance if nothing else changes."""
    request = joining.request
    old_leader = group.leader_id
    instance_id = request.group_instance_id
    assert instance_id is not None, "only static members are replaced"
    member = rebalancer.replace_static_member(group, instance_id, old_id, new_id)
    previous = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    _update(group, member, joining)
    rebalancer.renew_session(group, member)
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        # The leader may be assigning partitions to the old id at this moment: rebalance again.
        return rebalancer.prepare_rebalance(group, f"static member {quoted(instance_id)} came back as {quoted(new_id)}")
    if group.state is not ClassicGroupState.STABLE:
        return rebalancer.maybe_complete_join(group)
    if group.select_protocol() != group.protocol_name:
        reason = f"static member {quoted(instance_id)} came back with other protocols; it says: {_reason(request)}"
        return rebalancer.rebalance_or_complete_join(group, reason)

    def on_append(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            joining.reject(error, NO_MEMBER_ID)
        # Meanwhile it may have left, or have returned with yet another id.
        if group.members.get(new_id) is not member:
            return
        if error is not ErrorCode.NONE:
            _restore(group, member, previous)
            rebalancer.replace_static_member(group, instance_id, new_id, old_id)
        elif group.state is ClassicGroupState.STABLE:
            _complete_returning_join(rebalancer, group, member, joining, old_leader)

    assignments = {other.member_id: other.assignment for other in group.members.values()}
    return CoordinatorResult(
        records=[record_of(group, assignments)], response=None, is_replayed=False, on_append=on_append
    )


def _complete_returning_join(
    rebalancer: Rebalancer, group: ClassicGroup, member: ClassicMember, joining: Join, old_leader: str | None
) -> None:
    """Send a returned static member the current generation, so that it does not assign partitions again."""
    member_id = member.member_id
    if joining.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        is_leader = group.leader_id == member_id
        members = group.members_for_leader() if is_leader else []
        response = rebalancer.join_response(group, member_id, members=members, skip_assignment=is_leader)
    else:
        # An older client must not learn that it leads, or it would assign: return the previous leader's id.
        response = rebalancer.join_response(group, member_id, leader=old_leader)
    group.complete_join_future(member, response)
    rebalancer.renew_session(group, member)


def _update(group: ClassicGroup, member: ClassicMember, joining: Join) -> None:
    request = joining.request
    group.update(
        member,
        protocols=request.protocols,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        awaiting_join=joining.response,
    )


def _restore(
    group: ClassicGroup, member: ClassicMember, values: tuple[list[JoinGroupRequestProtocol], int, int]
) -> None:
    protocols, rebalance_timeout_ms, session_timeout_ms = values
    group.update(
        member,
        protocols=protocols,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        awaiting_join=None,
    )


def _reason(request: JoinGroupRequest) -> str:
    return quoted(request.reason or "not provided")
