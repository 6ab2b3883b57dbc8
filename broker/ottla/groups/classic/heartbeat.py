"""Heartbeat for classic groups: renews the member's session, and makes it join again during a rebalance.

Source: GroupMetadataManager.classicGroupHeartbeat.
"""

from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.state import ClassicGroupState
from ottla.wire.messages.heartbeat import HeartbeatRequest


def heartbeat(rebalancer: Rebalancer, request: HeartbeatRequest) -> ErrorCode:
    """Renew the session; return NONE, or REBALANCE_IN_PROGRESS.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION; the session is not renewed.
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
