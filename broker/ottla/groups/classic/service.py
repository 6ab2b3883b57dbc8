"""`ClassicGroupService`: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Source: GroupCoordinatorService of Kafka.
"""

from dataclasses import replace
from typing import Any, Final, Protocol

from ottla.coordinator.context import CoordinatorContext
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime, respond_when_committed
from ottla.coordinator.shard import CoordinatorShard
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.classic.group import NO_MEMBER_ID, join_error_response
from ottla.groups.classic.heartbeat import heartbeat
from ottla.groups.classic.join import Join, join
from ottla.groups.classic.leave import leave
from ottla.groups.classic.rebalance import Rebalancer
from ottla.groups.classic.sync import sync
from ottla.groups.client import Client
from ottla.groups.config import GroupConfig
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.leave import remove_by_leave_group
from ottla.groups.deletion import deletion_records
from ottla.groups.log import GroupRecord
from ottla.groups.migration.join import join_consumer_group, prepare_join
from ottla.groups.migration.members import heartbeat_in_consumer_group, sync_with_consumer_group
from ottla.groups.modern.groups import ModernGroups
from ottla.groups.offsets.member_check import EpochGroup
from ottla.groups.result import GroupResult
from ottla.groups.share.groups import ShareGroups
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.groups import StreamsGroups
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOLS_MAX: Final = 100
"""Protocols of one member, where clients have one to three; 30,000 take the loop 75 ms in a consumer group."""


class ClassicGroupShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses."""

    rebalancer: Rebalancer
    consumers: ConsumerGroups
    shares: ShareGroups
    streams: StreamsGroups

    def epoch_group(self, group_id: str) -> EpochGroup | None:
        """Return the group with this id; None for a classic group or a share group."""


class ClassicGroupService:
    """Operations of classic groups; an empty group id is an INVALID_GROUP_ID."""

    def __init__(self, *, runtime: CoordinatorRuntime[ClassicGroupShard], config: GroupConfig) -> None:
        self._runtime = runtime
        self._config = config

    def prepare_join(self, request: JoinGroupRequest) -> Steps[ConsumerProtocolSubscription | None]:
        """Do in slices what takes long of a JoinGroup: see `prepare_join` of consumer groups."""
        try:
            shard = self._runtime.context_for(request.group_id).shard
        except KafkaError:
            return None  # `join_group` responds
        if request.group_id not in shard.consumers.groups:
            return None
        return (yield from prepare_join(shard.consumers.topics, request))

    def join_group(
        self,
        client: Client,
        api_version: int,
        request: JoinGroupRequest,
        subscription: ConsumerProtocolSubscription | None = None,
    ) -> Delayed[JoinGroupResponse]:
        """Add or keep a member; the response comes when the join phase of the group's rebalance ends.

        Of a consumer group that a member of the classic protocol joins, the response comes when the member is stored.
        ``subscription`` is the result of `prepare_join`.
        """
        joining = Join(
            client=client, api_version=api_version, request=request, response=Delayed(), subscription=subscription
        )
        timeout_ms = request.session_timeout_ms
        is_in_range = self._config.min_session_timeout_ms <= timeout_ms <= self._config.max_session_timeout_ms
        if not request.group_id:
            joining.reject(ErrorCode.INVALID_GROUP_ID, request.member_id)
        elif not is_in_range:
            joining.reject(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        elif len(request.protocols) > PROTOCOLS_MAX:
            joining.reject(ErrorCode.INVALID_REQUEST, request.member_id)
        else:
            try:
                context = self._runtime.context_for(request.group_id)
            except KafkaError as error:
                joining.reject(error.code, request.member_id)
            else:
                _join(context, joining)
        return joining.response

    def sync_group(self, request: SyncGroupRequest) -> Delayed[SyncGroupResponse]:
        """Store the leader's assignments; the response has the member's own, and comes when they are committed."""
        if not request.group_id:
            return Delayed.of(SyncGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        response: Delayed[SyncGroupResponse] = Delayed()
        try:
            context = self._runtime.context_for(request.group_id)
            group = _group_with_members(context.shard, request.group_id)
            if group is not None:
                synced = sync_with_consumer_group(context.shard.consumers, group, request)
                return respond_when_committed(context.when_committed(), synced, _failed_sync)
        except KafkaError as error:
            response.complete(_failed_sync(error.code))
        else:
            context.write_if_any(sync(context.shard.rebalancer, request, response))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> Delayed[HeartbeatResponse]:
        """Renew a member's session. While the group is being loaded no session expires, so the response is NONE."""
        if not request.group_id:
            return Delayed.of(HeartbeatResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.run_read_operation(
            request.group_id,
            lambda shard: HeartbeatResponse(error_code=int(_heartbeat(shard, request))),
            _failed_heartbeat,
            must_be_latest=False,
        )

    def leave_group(self, request: LeaveGroupRequest) -> Delayed[LeaveGroupResponse]:
        """Remove the members of ``request.members``, which the handler also sets for versions with a single member."""
        if not request.group_id:
            return Delayed.of(LeaveGroupResponse(error_code=int(ErrorCode.INVALID_GROUP_ID)))
        return self._runtime.run_write_operation(
            request.group_id,
            lambda shard: _leave(shard, request),
            lambda error: LeaveGroupResponse(error_code=int(error)),
        )


def _failed_heartbeat(error: ErrorCode) -> HeartbeatResponse:
    is_loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=0 if is_loading else int(error))


def _failed_sync(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=int(error))


def _group_with_members(shard: ClassicGroupShard, group_id: str) -> ConsumerGroup | None:
    """Return the consumer group with this id, unless it is empty."""
    group = shard.consumers.groups.get(group_id)
    return None if group is None or group.is_empty else group


def _heartbeat(shard: ClassicGroupShard, request: HeartbeatRequest) -> ErrorCode:
    group = _group_with_members(shard, request.group_id)
    if group is not None:
        return heartbeat_in_consumer_group(shard.consumers, group, request)
    return heartbeat(shard.rebalancer, request)


def _join(context: CoordinatorContext[ClassicGroupShard], joining: Join) -> None:
    group = _group_with_members(context.shard, joining.request.group_id)
    if group is None:
        context.write_if_any(_join_classic_group(context.shard, joining))
        return
    try:
        result = join_consumer_group(context.shard.consumers, group, joining)
    except KafkaError as error:
        joining.reject(error.code, NO_MEMBER_ID)
        return

    def failed(error: ErrorCode) -> JoinGroupResponse:
        return join_error_response(error, NO_MEMBER_ID)

    respond_when_committed(context.write(result), result.response, failed).on_complete(joining.response.complete)


def _join_classic_group(shard: ClassicGroupShard, joining: Join) -> GroupResult | None:
    """Join a classic group; an empty consumer or streams group becomes a classic one, and keeps its offsets."""
    group_id = joining.request.group_id
    other = shard.epoch_group(group_id)
    if (other is not None and not other.is_empty) or group_id in shard.shares.groups:
        joining.reject(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, NO_MEMBER_ID)
        return None
    if other is None or joining.request.member_id != NO_MEMBER_ID:
        return join(shard.rebalancer, joining)
    kind: ModernGroups[Any, Any, Any] = shard.streams if isinstance(other, StreamsGroup) else shard.consumers
    kind.discard_group(group_id)
    result = join(shard.rebalancer, joining)
    assert result is not None, "a new group has a record"
    on_append = result.on_append

    def restore_on_error(error: ErrorCode) -> GroupResult | None:
        following = None if on_append is None else on_append(error)
        if error is not ErrorCode.NONE and group_id not in shard.rebalancer.groups:
            kind.restore_group(other)
        return following

    return replace(result, records=[*deletion_records(other), *result.records], on_append=restore_on_error)


def _leave(shard: ClassicGroupShard, request: LeaveGroupRequest) -> CoordinatorResult[GroupRecord, LeaveGroupResponse]:
    consumer_group = shard.consumers.groups.get(request.group_id)
    if consumer_group is not None:
        return remove_by_leave_group(shard.consumers, consumer_group, request)
    return leave(shard.rebalancer, request)
