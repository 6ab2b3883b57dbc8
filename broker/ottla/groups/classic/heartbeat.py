"""Heartbeat for classic groups: prolongs the member's session, and tells it to join again while a rebalance is on.

Source: GroupMetadataManager.classicGroupHeartbeat.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.state import ClassicGroupState
from ottla.wire.messages.heartbeat import HeartbeatRequest


def heartbeat(rebalancer: Rebalancer, request: HeartbeatRequest) -> ErrorCode:
    """Return NONE, or REBALANCE_IN_PROGRESS with the session prolonged all the same.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION; the session is as it was.
    """
    group = rebalancer.groups.get(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    rebalancer.renew_session(group, member)
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
