"""`ClassicGroupService`: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Source: GroupCoordinatorService of Kafka.
"""

from typing import Protocol

from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.shard import CoordinatorShard
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.heartbeat import heartbeat
from ottla.groups.classic.join import Join, join
from ottla.groups.classic.leave import leave
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.sync import sync
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.groups.log import GroupRecord
from ottla.purgatory import Delayed
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroupShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses."""

    rebalancer: Rebalancer


class ClassicGroupService:
    """Operations of classic groups; an empty group id is an INVALID_GROUP_ID."""

    def __init__(self, *, runtime: CoordinatorRuntime[ClassicGroupShard], config: GroupConfig) -> None:
        self._runtime = runtime
        self._config = config

    def join_group(self, client: Client, api_version: int, request: JoinGroupRequest) -> Delayed[JoinGroupResponse]:
        """Add or keep a member; the response comes when the join phase of the group's rebalance ends."""
        joining = Join(client=client, api_version=api_version, request=request, response=Delayed())
        timeout_ms = request.session_timeout_ms
        is_in_range = self._config.min_session_timeout_ms <= timeout_ms <= self._config.max_session_timeout_ms
        if not request.group_id:
            joining.reject(ErrorCode.INVALID_GROUP_ID, request.member_id)
        elif not is_in_range:
            joining.reject(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        else:
            try:
                context = self._runtime.context_for(request.group_id)
            except KafkaError as error:
                joining.reject(error.code, request.member_id)
            else:
                context.write_if_any(join(context.shard.rebalancer, joining))
        return joining.response

    def sync_group(self, request: SyncGroupRequest) -> Delayed[SyncGroupResponse]:
        """Store the leader's assignments; the response has the member's own, and comes when they are committed."""
        if not request.group_id:
            return Delayed.of(SyncGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        response: Delayed[SyncGroupResponse] = Delayed()
        try:
            context = self._runtime.context_for(request.group_id)
        except KafkaError as error:
            response.complete(SyncGroupResponse(error_code=int(error.code)))
        else:
            context.write_if_any(sync(context.shard.rebalancer, request, response))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
        """Renew a member's session. While the group is being loaded no session expires, so the response is NONE."""
        if not request.group_id:
            return Delayed.of(HeartbeatResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.run_read_operation(
            request.group_id,
            lambda shard: HeartbeatResponse(error_code=int(heartbeat(shard.rebalancer, request))),
            _failed_heartbeat,
            must_be_latest=False,
        )

    def leave_group(self, request: LeaveGroupRequest) -> Delayed[LeaveGroupResponse]:
        """Remove the members of ``request.members``, which the handler also sets for versions with a single member."""
        if not request.group_id:
            return Delayed.of(LeaveGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.run_write_operation(
            request.group_id,
            lambda shard: leave(shard.rebalancer, request),
            lambda error: LeaveGroupResponse(error_code=int(error)),
        )


def _failed_heartbeat(error: ErrorCode) -> HeartbeatResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=0 if is_loading else int(error))
