"""ConsumerGroupHeartbeat of a member that joins or stays: its subscription, its target, the next step towards it.

Source: GroupMetadataManager.consumerGroupHeartbeat of Apache Kafka 4.3; KIP-848.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, KafkaError
from ottla.groups.client import Client
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ASSIGNMENT_JOB, ConsumerGroups
from ottla.groups.consumer.member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, NOT_SET, ConsumerMember, MemberState
from ottla.groups.consumer.reconciliation import OwnedPartitions, Reconciliation
from ottla.groups.consumer.records import (
    current_assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    target_assignment_record,
)
from ottla.groups.consumer.regex_resolution import (
    MayDescribe,
    RegexChange,
    update_regexes,
)
from ottla.groups.consumer.state import is_transition
from ottla.groups.consumer.target import target_for
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.groups.modern.assignment import Target
from ottla.quoting import quoted
from ottla.types import Uuid, format_uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

log = logging.getLogger(__name__)

SETTLING_MS: Final = 10_000
"""How long after a change of the group's epoch heartbeats are frequent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A heartbeat in progress.

    Attributes:
        subscribed_topic_names: sorted, each once; None for no change.
        owned: the partitions that the member reports; None for no change.
    """

    client: Client
    request: ConsumerGroupHeartbeatRequest
    subscribed_topic_names: tuple[str, ...] | None
    owned: OwnedPartitions | None
    may_describe: MayDescribe

    @property
    def is_join(self) -> bool:
        return self.request.member_epoch == JOIN_EPOCH

    @property
    def is_full(self) -> bool:
        """Whether the member sent all that it has: when it joins, and after an error."""
        request = self.request
        has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return request.rebalance_timeout_ms != NOT_SET and has_subscription and request.topic_partitions is not None


def heartbeat(
    groups: ConsumerGroups, beat: Heartbeat
) -> CoordinatorResult[GroupRecord, ConsumerGroupHeartbeatResponse]:
    """Add or keep a member; return its records, and the response with what it has to own.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
            UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION; nothing has changed.
    """
    request = beat.request
    records: list[GroupRecord] = []
    group = _group(groups, beat, records)
    _check_size(groups, group, request.member_id)
    owned = beat.owned
    member = _member(groups, group, beat, owned, records)
    updated = _with_request(member, beat)
    if updated != member:
        records.append(member_record(group.group_id, updated))
    has_new_names = updated.subscribed_topic_names != member.subscribed_topic_names
    regex_change = update_regexes(groups, group, member, updated, beat.may_describe, records)
    epoch = _update_epoch(
        groups,
        group,
        member,
        updated,
        records,
        must_increment=has_new_names or regex_change is RegexChange.UPDATED_AND_RESOLVED,
    )
    target = target_for(groups, group, epoch, member, updated, records)
    updated = _reconcile(
        groups,
        group,
        updated,
        target,
        owned,
        records,
        has_subscription_changed=has_new_names or regex_change is not RegexChange.NONE,
    )
    groups.renew_session(group.group_id, updated.member_id)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=_heartbeat_interval_ms(groups, group, epoch),
    )
    if beat.is_join or beat.is_full or updated.assigned != member.assigned:
        response.assignment = _assignment(updated)
    return CoordinatorResult(records=records, response=response)


def _heartbeat_interval_ms(groups: ConsumerGroups, group: ConsumerGroup, epoch: int) -> int:
    """Return the time until the member's next heartbeat: short while the members move to a new epoch.

    A partition moves in two steps, each of which waits for a heartbeat: one member revokes it, then the other may have
    it. With 5 s between heartbeats a group of ten takes 10 s to start. The more members, the longer the interval, so
    that those of one group send 1,000 heartbeats a second at most for this.
    """
    usual_ms, settling_ms = groups.settings.heartbeat_interval_ms(group.group_id), groups.settings.settling_interval_ms
    changed_ms = group.epoch_changed_ms
    is_settling = epoch != group.epoch or (
        changed_ms is not None and groups.clock.monotonic_ms() - changed_ms < SETTLING_MS
    )
    if not is_settling or settling_ms == 0:
        return usual_ms
    return min(usual_ms, max(settling_ms, len(group.members)))


def _assignment(member: ConsumerMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned.items()
        ]
    )


# Group and member


def _group(groups: ConsumerGroups, beat: Heartbeat, records: list[GroupRecord]) -> ConsumerGroup:
    """Return the group; a new one, which the records create, for a member that joins."""
    group_id = beat.request.group_id
    group = groups.groups.get(group_id)
    if group is not None:
        return group
    classic = groups.classic.groups.get(group_id)
    if groups.is_share_group(group_id) or (classic is not None and not beat.is_join):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if not beat.is_join:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
    if classic is not None:
        if not classic.is_empty:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled.",
            )
        records.append(group_metadata_record(group_id, None))
    return ConsumerGroup(group_id)


def _check_size(groups: ConsumerGroups, group: ConsumerGroup, member_id: str) -> None:
    size_max = groups.settings.config.consumer_max_size
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def _member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    beat: Heartbeat,
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return the member as it is known, or a new one."""
    request = beat.request
    member_id = request.member_id or _new_member_id(groups)
    if request.instance_id is not None:
        return _static_member(groups, group, beat, member_id, owned, records)
    member = group.members.get(member_id)
    if member is None:
        if not beat.is_join:
            return group.member(member_id)
        member = ConsumerMember(member_id=member_id)
    _check_epoch(member, request.member_epoch, owned)
    if beat.is_join:
        log.info("Group %s: %s joins", quoted(group.group_id), quoted(member_id))
    return member


def _static_member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    beat: Heartbeat,
    member_id: str,
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return a static member; one that has left for a while is replaced by the one that returns under another id."""
    instance_id = beat.request.instance_id
    current = group.static_member(instance_id)
    if not beat.is_join:
        if current is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        check_instance(current, member_id)
        _check_epoch(current, beat.request.member_epoch, owned)
        return current
    log.info("Group %s: %s joins as instance %s", quoted(group.group_id), quoted(member_id), quoted(instance_id or ""))
    if current is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id)
    if current.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {current.member_id} member.",
        )
    returned = replace(current, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=0)
    records += member_tombstones(group.group_id, current.member_id)
    records.append(member_record(group.group_id, returned))
    target = group.target.get(current.member_id, {})
    records.append(target_assignment_record(group.group_id, member_id, target))
    records.append(current_assignment_record(group.group_id, returned))
    # Its target would be for the id that is gone.
    groups.jobs.cancel(ASSIGNMENT_JOB, group.group_id)
    return returned


def _new_member_id(groups: ConsumerGroups) -> str:
    return format_uuid(groups.random.uuid())


def check_instance(member: ConsumerMember, member_id: str) -> None:
    """Reject a request of a member whose instance id another member has.

    Raises:
        KafkaError: FENCED_INSTANCE_ID.
    """
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.instance_id} was fenced by member {member.member_id}.",
        )


def _check_epoch(member: ConsumerMember, epoch: int, owned: OwnedPartitions | None) -> None:
    """Accept the member's epoch, and the one before with nothing else than the assignment that went with it.

    Raises:
        KafkaError: FENCED_MEMBER_EPOCH.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    is_behind = epoch < member.member_epoch
    if is_behind and epoch == member.previous_member_epoch and _is_within(owned, member.assigned):
        # The response with the new epoch may have been lost.
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'smaller' if is_behind else 'greater'} member epoch ({epoch}) than the one "
        f"known by the group coordinator ({member.member_epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def _is_within(owned: OwnedPartitions | None, assigned: Mapping[Uuid, Mapping[int, int]]) -> bool:
    if owned is None:
        return False
    return all(
        topic_id in assigned and assigned[topic_id].keys() >= set(partitions) for topic_id, partitions in owned.items()
    )


def _with_request(member: ConsumerMember, beat: Heartbeat) -> ConsumerMember:
    """Return the member with what the request says; what it leaves out has not changed."""
    request = beat.request
    names, regex = beat.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SET else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else names,
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=beat.client.client_id,
        client_host=beat.client.host,
        classic=None,
    )


# Epochs and assignments


def _update_epoch(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    records: list[GroupRecord],
    *,
    must_increment: bool,
) -> int:
    """Return the group's epoch: incremented when subscriptions have changed, or topics since the last comparison."""
    now_ms = groups.clock.monotonic_ms()
    if not must_increment and not group.has_stale_topics(groups.topics, now_ms):
        return group.epoch
    given_up = group.subscriptions.regex_given_up(old, new)
    names = group.subscriptions.topics_after([old], new, None if given_up is None else {given_up: None})
    topics_hash = groups.topics.hash_of(names)
    epoch = group.epoch
    if must_increment or topics_hash != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, topics_hash))
        log.info("Group %s has epoch %d", quoted(group.group_id), epoch)
    group.note_refresh(groups.topics, now_ms, epoch)
    if group.has_partition_metadata:
        records.append(partition_metadata_tombstone(group.group_id))
    return epoch


def _reconcile(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target,
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
    *,
    has_subscription_changed: bool,
) -> ConsumerMember:
    """Return the member after its next step; record it, and limit the time for a revocation."""
    if not has_subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    step = Reconciliation(
        target_epoch=target.epoch,
        target=target.assignment,
        is_owned=group.is_owned,
        owned=owned,
        subscribed_topic_ids=groups.topics.named_among(
            target.assignment.keys() | member.assigned.keys(), group.subscriptions.names_of(member)
        ),
        has_subscription_changed=has_subscription_changed,
    )
    updated = step.next_step(member)
    assert is_transition(member.state, updated.state), f"{member.state.name} cannot become {updated.state.name}"
    if updated != member:
        records.append(current_assignment_record(group.group_id, updated))
        if updated.state is MemberState.UNREVOKED_PARTITIONS:
            groups.await_revocation(group.group_id, updated)
        else:
            groups.end_revocation(group.group_id, updated.member_id)
    return updated
