"""`ConsumerGroupService`: ConsumerGroupHeartbeat and ConsumerGroupDescribe.

Source: GroupCoordinatorService of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final, Protocol

from ottla.coordinator.runtime import CoordinatorRuntime, respond_when_committed
from ottla.coordinator.shard import CoordinatorShard
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.client import Client
from ottla.groups.consumer.describe import describe
from ottla.groups.consumer.groups import ConsumerGroups
from ottla.groups.consumer.heartbeat import Heartbeat, PreparedUpgrade, heartbeat
from ottla.groups.consumer.leave import leave
from ottla.groups.consumer.member import NOT_SET, SUBSCRIBED_TOPICS_MAX
from ottla.groups.consumer.reconciliation import OwnedPartitions
from ottla.groups.consumer.regex_resolution import MayDescribe
from ottla.groups.consumer.settings import ConsumerGroupSettings
from ottla.groups.log import GroupRecord
from ottla.groups.migration.sizes import fits_in_place, size_of_classic
from ottla.groups.migration.upgrade import upgrade_in_steps
from ottla.groups.modern.member_epochs import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.wire.messages.consumer_group_describe import DescribedGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

_FIRST_VERSION_WITH_CLIENT_MEMBER_ID: Final = 1


class ConsumerGroupShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses."""

    consumers: ConsumerGroups


class ConsumerGroupService:
    """Operations of consumer groups."""

    def __init__(self, *, runtime: CoordinatorRuntime[ConsumerGroupShard], settings: ConsumerGroupSettings) -> None:
        self._runtime = runtime
        self._settings = settings

    def prepare(self, request: ConsumerGroupHeartbeatRequest) -> Steps[PreparedUpgrade]:
        """Hash the topics in slices that `heartbeat` is going to compare: those of the request, and of a loaded group.

        ``request.subscribed_topic_names`` is as there. Returns the conversion of a large classic group that the member
        joins.
        """
        names: Iterable[str] = request.subscribed_topic_names or ()
        try:
            groups = self._runtime.context_for(request.group_id).shard.consumers
        except KafkaError:
            return None  # `heartbeat` responds
        group = groups.groups.get(request.group_id)
        if group is not None and group.has_stale_topics(groups.topics, groups.clock.monotonic_ms()):
            names = chain(names, group.subscriptions.topics)
        yield from groups.topics.prepare(names)
        classic = groups.classic.groups.get(request.group_id)
        if (
            request.member_epoch != JOIN_EPOCH
            or classic is None
            or fits_in_place(map(size_of_classic, classic.members.values()))
        ):
            return None
        try:
            return (yield from upgrade_in_steps(classic, groups.settings.config, groups.topics))
        except KafkaError as error:
            return error

    def heartbeat(
        self,
        client: Client,
        api_version: int,
        request: ConsumerGroupHeartbeatRequest,
        owned: OwnedPartitions | None,
        may_describe: MayDescribe,
        upgrade: PreparedUpgrade = None,
    ) -> Delayed[ConsumerGroupHeartbeatResponse]:
        """Let a member join, stay or leave; the response comes when its records are committed.

        ``request.subscribed_topic_names`` is sorted, without duplicates; ``owned`` has its ``topic_partitions``;
        ``upgrade`` is the result of `prepare`.
        """
        try:
            _check(request, api_version, self._settings.config.consumer_assignors)
            context = self._runtime.context_for(request.group_id)
            groups = context.shard.consumers
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                result = leave(groups, request)
            else:
                names = request.subscribed_topic_names
                beat = Heartbeat(
                    client=client,
                    request=request,
                    subscribed_topic_names=None if names is None else tuple(names),
                    owned=owned,
                    may_describe=may_describe,
                    upgrade=upgrade,
                )
                result = heartbeat(groups, beat)
        except KafkaError as error:
            return Delayed.of(error_response(error.code, error.message))
        return respond_when_committed(context.write(result), result.response, error_response)

    def describe_group(self, group_id: str) -> Steps[DescribedGroup]:
        """Return a group when all that is shown of it is committed, or its error."""
        if not group_id:
            return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.INVALID_GROUP_ID))
        try:
            context = self._runtime.context_for(group_id)
            groups = context.shard.consumers
            group = groups.group(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=int(error.code), error_message=error.message)
        committed = context.when_committed()
        described = yield from describe(group, groups.topics, self._settings.config.consumer_assignors)
        outcome = committed.value if committed.is_complete else (yield committed)
        if outcome is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=int(outcome))
        return described


def error_response(error: ErrorCode, message: str | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=int(error), error_message=message)


def _check(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: tuple[str, ...]) -> None:
    """Reject a request that contradicts itself.

    Raises:
        KafkaError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    epoch = request.member_epoch
    if api_version >= _FIRST_VERSION_WITH_CLIENT_MEMBER_ID or epoch > 0 or epoch == LEAVE_EPOCH:
        _require_text(request.member_id, "MemberId")
    _require_text(request.group_id, "GroupId")
    _require_text(request.instance_id, "InstanceId")
    _require_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if len(request.subscribed_topic_names or ()) > SUBSCRIBED_TOPICS_MAX:
        raise InvalidRequestError(f"SubscribedTopicNames can't have more than {SUBSCRIBED_TOPICS_MAX} topics.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == NOT_SET:
        raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise InvalidRequestError(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        )


def _require_text(text: str | None, field: str) -> None:
    if text is not None and not text.strip():
        raise InvalidRequestError(f"{field} can't be empty.")
