"""JoinGroup of a classic member in a consumer group: the heartbeat of that member, with all that it has to say.

The response comes at once, not after a phase of a rebalance, and names no leader: the coordinator assigns partitions.

Source: GroupMetadataManager.classicGroupJoinToConsumerGroup of Apache Kafka 4.3.
"""

import logging
from dataclasses import replace

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError, ProtocolError
from ottla.groups.classic.group import CONSUMER_PROTOCOL_TYPE, NO_MEMBER_ID, join_error_response
from ottla.groups.classic.join import FIRST_VERSION_WITH_REQUIRED_MEMBER_ID, Join
from ottla.groups.consumer.advance import new_member_id, reconcile, replace_static_member, update_epoch
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import LAST_MEMBER_GONE, ConsumerGroups
from ottla.groups.consumer.member import NOT_SET, SUBSCRIBED_TOPICS_MAX, ConsumerMember
from ottla.groups.consumer.reconciliation import OwnedPartitions
from ottla.groups.consumer.records import member_record, regex_record
from ottla.groups.consumer.target import target_for
from ottla.groups.log import GroupRecord
from ottla.groups.migration.consumer_protocol import decode_subscription
from ottla.groups.migration.downgrade import downgrade_in_steps, ends_with_replacement
from ottla.groups.migration.policy import MigrationPolicy
from ottla.groups.migration.sizes import fits_in_place, size_of_consumer
from ottla.groups.migration.upgrade import classic_metadata
from ottla.groups.modern.assignment import Target
from ottla.groups.modern.topics import ClusterTopics
from ottla.purgatory.steps import Steps, run_to_end
from ottla.quoting import quoted
from ottla.types import Uuid
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

log = logging.getLogger(__name__)

JoinResult = CoordinatorResult[GroupRecord, JoinGroupResponse]


def prepare_join(topics: ClusterTopics, request: JoinGroupRequest) -> Steps[ConsumerProtocolSubscription | None]:
    """Decode the member's subscription in slices, and hash the topics that `join_consumer_group` is going to compare.

    Return None if there is none that it accepts: it responds.
    """
    try:
        subscription = yield from _subscription_of(request)
    except KafkaError:
        return None
    yield from topics.prepare(subscription.topics)
    return subscription


def join_consumer_group(groups: ConsumerGroups, group: ConsumerGroup, joining: Join) -> JoinResult:
    """Add or keep a classic member; return its records, and the response with its member epoch as the generation.

    Raises:
        KafkaError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID;
            UNKNOWN_SERVER_ERROR: the subscription is malformed, as in Kafka; INVALID_REQUEST: it has too many topics.
    """
    request = joining.request
    if groups.settings.config.consumer_migration_policy is MigrationPolicy.DISABLED:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    member_id = request.member_id or new_member_id(groups)
    groups.check_size(group, member_id, groups.settings.config.consumer_max_size)
    if not group.supports_classic_protocols(request.protocol_type, [each.name for each in request.protocols]):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if _must_know_its_id(joining):
        return CoordinatorResult(response=join_error_response(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    subscription = joining.subscription or run_to_end(_subscription_of(request))
    records: list[GroupRecord] = []
    member = _member(groups, group, request, member_id, records)
    updated = _with_request(member, joining, subscription)
    if updated != member:
        records.append(member_record(group.group_id, updated))
    given_up = group.subscriptions.regex_given_up(member, updated)
    if given_up is not None:
        records.append(regex_record(group.group_id, given_up, None))
    is_changed = (updated.subscribed_topic_names, updated.subscribed_topic_regex) != (
        member.subscribed_topic_names,
        member.subscribed_topic_regex,
    )
    epoch = update_epoch(groups, group, member, updated, records, must_increment=is_changed)
    owned = _owned(subscription, groups.topics)
    replaced = group.static_member(request.group_instance_id)
    if replaced is not None and ends_with_replacement(group, replaced, groups.settings.config):
        if not fits_in_place(map(size_of_consumer, group.members.values())):
            groups.downgrade_in_slices(group.group_id)
        else:
            result = _downgrade(groups, group, replaced, updated, epoch, owned, records, is_changed=is_changed)
            if result is not None:
                return result
    target = target_for(groups, group, epoch, member, updated, records)
    updated = reconcile(groups, group, updated, target, owned, records, has_subscription_changed=is_changed)
    groups.end_revocation(group.group_id, updated.member_id)
    groups.renew_session(group.group_id, updated)
    groups.await_sync(group.group_id, updated)
    return CoordinatorResult(records=records, response=_response(updated))


def _must_know_its_id(joining: Join) -> bool:
    """Return whether a new member must send the id that it receives with another JoinGroup (KIP-394)."""
    request = joining.request
    is_new = request.member_id == NO_MEMBER_ID and request.group_instance_id is None
    return is_new and joining.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID


def _subscription_of(request: JoinGroupRequest) -> Steps[ConsumerProtocolSubscription]:
    """Return the subscription in the first of the member's protocols, which all have the same."""
    try:
        subscription = yield from decode_subscription(request.protocols[0].metadata if request.protocols else b"")
    except ProtocolError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
    if len(subscription.topics) > SUBSCRIBED_TOPICS_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return subscription


def _member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return the member as it is known, or a new one; a static one without an id continues that of its instance."""
    log.info("Group %s: %s joins by the classic protocol", quoted(group.group_id), quoted(member_id))
    instance_id = request.group_instance_id
    if instance_id is not None:
        if request.member_id != NO_MEMBER_ID:
            return group.identified_member(member_id, instance_id)
        current = group.static_member(instance_id)
        if current is not None:
            return replace_static_member(groups, group, current, member_id, records)
    return group.members.get(member_id) or ConsumerMember(member_id=member_id)


def _with_request(member: ConsumerMember, joining: Join, subscription: ConsumerProtocolSubscription) -> ConsumerMember:
    request = joining.request
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        client_id=joining.client.client_id,
        client_host=joining.client.host,
        classic=classic_metadata(request.session_timeout_ms, request.protocols),
    )


def _owned(subscription: ConsumerProtocolSubscription, topics: ClusterTopics) -> OwnedPartitions:
    """Return what the member owns: nothing if it says nothing, as members do that have revoked all before they join."""
    owned: dict[Uuid, list[int]] = {}
    for topic in subscription.owned_partitions:
        topic_id = topics.id_of(topic.topic)
        if topic_id is not None:
            owned.setdefault(topic_id, []).extend(topic.partitions)
    return owned


def _downgrade(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    replaced: ConsumerMember,
    updated: ConsumerMember,
    epoch: int,
    owned: OwnedPartitions,
    records: list[GroupRecord],
    *,
    is_changed: bool,
) -> JoinResult | None:
    """Return the conversion to a classic group with ``updated`` instead of ``replaced``; None if it is impossible.

    The members rebalance if the target is not that of the newest epoch. They also do, other than in Kafka, if another
    member has not reached it: a member of a classic group has its partitions from SyncGroup on, free or not.
    """
    must_rebalance = group.assignment_epoch < epoch or not group.is_reconciled_without(replaced)
    if not must_rebalance:
        target = Target(group.assignment_epoch, group.target_of(updated))
        updated = reconcile(groups, group, updated, target, owned, records, has_subscription_changed=is_changed)
    others = [member for member in group.members.values() if member is not replaced]
    steps = downgrade_in_steps(
        group,
        [*others, updated],
        groups.topics,
        wall_ms=groups.clock.wall_ms(),
        must_rebalance=must_rebalance,
        renamed={replaced.member_id: updated.member_id},
    )
    downgrade = run_to_end(steps)
    if downgrade is None:
        return None
    converted = groups.downgrade(downgrade, LAST_MEMBER_GONE if must_rebalance else None)
    return replace(converted, records=[*records, *converted.records]).with_response(_response(updated))


def _response(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None, f"{member.member_id} has joined by the classic protocol"
    return JoinGroupResponse(
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.supported_protocols[0].name,
        member_id=member.member_id,
    )
