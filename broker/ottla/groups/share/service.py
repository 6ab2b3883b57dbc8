"""`ShareGroupService`: ShareGroupHeartbeat and ShareGroupDescribe, and the initialization of share-partitions.

Source: GroupCoordinatorService of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final, Protocol

from ottla.coordinator.runtime import CoordinatorRuntime, respond_when_committed
from ottla.coordinator.shard import CoordinatorShard
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.client import Client
from ottla.groups.log import GroupRecord
from ottla.groups.modern.member_epochs import JOIN_EPOCH, LEAVE_EPOCH
from ottla.groups.share.describe import describe
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.heartbeat import heartbeat, leave
from ottla.groups.share.initialization import finish_initialization
from ottla.groups.share.persistence import first_error, initialize_in_slices
from ottla.groups.share.state_partitions import TopicStates
from ottla.purgatory import Delayed
from ottla.purgatory.steps import Steps
from ottla.share_state.persister import UNINITIALIZED_OFFSET, Persister, SharePartitionKey
from ottla.wire.messages.share_group_describe import DescribedGroup
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

SUBSCRIBED_TOPICS_MAX: Final = 1_000
"""Topics that one member may name (docs/limits.md)."""


class ShareGroupShard(CoordinatorShard[GroupRecord], Protocol):
    """The part of a shard that this service uses."""

    shares: ShareGroups


class ShareGroupService:
    """Operations of share groups."""

    def __init__(self, *, runtime: CoordinatorRuntime[ShareGroupShard], persister: Persister) -> None:
        self._runtime = runtime
        self._persister = persister

    def prepare(self, request: ShareGroupHeartbeatRequest) -> Steps[None]:
        """Hash the topics in slices that `heartbeat` is going to compare: those of the request, and of a loaded group.

        ``request.subscribed_topic_names`` is as there.
        """
        names: Iterable[str] = request.subscribed_topic_names or ()
        try:
            groups = self._runtime.context_for(request.group_id).shard.shares
        except KafkaError:
            return  # `heartbeat` responds
        group = groups.groups.get(request.group_id)
        if group is not None and group.has_stale_topics(groups.topics, groups.clock.monotonic_ms()):
            names = chain(names, group.subscriptions.topics)
        yield from groups.topics.prepare(names)

    def heartbeat(self, client: Client, request: ShareGroupHeartbeatRequest) -> Delayed[ShareGroupHeartbeatResponse]:
        """Let a member join, stay or leave; the response comes when its records are committed.

        ``request.subscribed_topic_names`` is sorted, without duplicates.
        """
        group_id = request.group_id
        try:
            _check(request)
            context = self._runtime.context_for(group_id)
            groups = context.shard.shares
            if request.member_epoch == LEAVE_EPOCH:
                left = leave(groups, request)
                return respond_when_committed(context.write(left), left.response, error_response)
            result = heartbeat(groups, client, request)
        except KafkaError as error:
            return Delayed.of(error_response(error.code, error.message))
        outcome = result.response
        written = context.write(result)
        if outcome.to_initialize:

            def initialize(error: ErrorCode) -> None:
                # Not before the record is committed: another coordinator must know what may have state.
                if error is ErrorCode.NONE:
                    self._initialize(groups, group_id, outcome.to_initialize, outcome.state_epoch)

            written.on_complete(initialize)
        return respond_when_committed(written, outcome.response, error_response)

    def _initialize(self, groups: ShareGroups, group_id: str, topics: TopicStates, state_epoch: int) -> None:
        """Create the state of share-partitions, and record them as initialized."""
        offsets = [
            (SharePartitionKey(group_id, topic_id, partition), UNINITIALIZED_OFFSET)
            for topic_id, topic in topics.items()
            for partition in sorted(topic.partitions)
        ]
        created = initialize_in_slices(groups.jobs, self._persister, group_id, offsets, state_epoch=state_epoch)
        created.on_complete(lambda results: self.finish_initialization(group_id, topics, first_error(results)))

    def finish_initialization(self, group_id: str, topics: TopicStates, error: ErrorCode) -> None:
        """Record ``topics`` as initialized, or no longer, at whichever coordinator the group has on this node."""
        self._runtime.run_write_operation(
            group_id,
            lambda shard: finish_initialization(shard.shares, group_id, topics, error),
            # The record that lists them as initializing stays: a heartbeat repeats the initialization.
            lambda _: None,
        )

    def describe_group(self, group_id: str) -> Steps[DescribedGroup]:
        """Return a group when all that is shown of it is committed, or its error."""
        if not group_id:
            return DescribedGroup(group_id=group_id, error_code=int(ErrorCode.INVALID_GROUP_ID))
        try:
            context = self._runtime.context_for(group_id)
            groups = context.shard.shares
            group = groups.group(group_id)
        except KafkaError as error:
            return DescribedGroup(group_id=group_id, error_code=int(error.code), error_message=error.message)
        committed = context.when_committed()
        described = yield from describe(group, groups.topics)
        outcome = committed.value if committed.is_complete else (yield committed)
        if outcome is not ErrorCode.NONE:
            return DescribedGroup(group_id=group_id, error_code=int(outcome))
        return described


def error_response(error: ErrorCode, message: str | None = None) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=int(error), error_message=message)


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Reject a request that contradicts itself.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    for text, field in ((request.member_id, "MemberId"), (request.group_id, "GroupId"), (request.rack_id, "RackId")):
        if text is not None and not text.strip():
            raise InvalidRequestError(f"{field} can't be empty.")
    names = request.subscribed_topic_names
    if request.member_epoch == JOIN_EPOCH and not names:
        raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if len(names or ()) > SUBSCRIBED_TOPICS_MAX:
        raise InvalidRequestError(f"SubscribedTopicNames can't have more than {SUBSCRIBED_TOPICS_MAX} topics.")
