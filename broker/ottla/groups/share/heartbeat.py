"""ShareGroupHeartbeat: a member joins, stays or leaves.

Source: GroupMetadataManager.shareGroupHeartbeat, shareGroupLeave of Apache Kafka 4.3; KIP-932.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode, InvalidRequestError, KafkaError
from ottla.groups.assignors.types import NO_ASSIGNMENT, MemberAssignment
from ottla.groups.client import Client
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import Target
from ottla.groups.modern.member_epochs import JOIN_EPOCH
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.groups import ShareGroups
from ottla.groups.share.initialization import initializing_record, topics_to_initialize
from ottla.groups.share.member import ShareMember
from ottla.groups.share.records import current_assignment_record, epoch_record, member_record
from ottla.groups.share.state_partitions import TopicStates
from ottla.groups.share.target import target_for
from ottla.quoting import quoted
from ottla.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)

GROUP_TOPICS_MAX: Final = 2_000
"""Names of all members together (docs/limits.md): twice those with state, for members that change theirs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a heartbeat has decided besides its records: the response, and the share-partitions to initialize.

    Attributes:
        state_epoch: the group's epoch, under which they are initialized.
    """

    response: ShareGroupHeartbeatResponse
    to_initialize: TopicStates
    state_epoch: int


def leave(
    groups: ShareGroups, request: ShareGroupHeartbeatRequest
) -> CoordinatorResult[GroupRecord, ShareGroupHeartbeatResponse]:
    """Remove a member.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
    """
    group = groups.group(request.group_id)
    member = group.member(request.member_id)
    log.info("Group %s: %s leaves", quoted(group.group_id), quoted(member.member_id))
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return groups.remove_member(group, member, response)


def heartbeat(
    groups: ShareGroups, client: Client, request: ShareGroupHeartbeatRequest
) -> CoordinatorResult[GroupRecord, Outcome]:
    """Add or keep a member; ``request.subscribed_topic_names`` is sorted, each once, or None for no change.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, INVALID_REQUEST;
            nothing has changed.
    """
    is_join = request.member_epoch == JOIN_EPOCH
    group = groups.group_to_join(request.group_id, is_join=is_join)
    groups.check_size(group, request.member_id, groups.settings.config.share_max_size)
    member = _member(group, request)
    names = request.subscribed_topic_names
    updated = replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        subscribed_topic_names=member.subscribed_topic_names if names is None else tuple(names),
        client_id=client.client_id,
        client_host=client.host,
    )
    has_new_names = updated.subscribed_topic_names != member.subscribed_topic_names
    if has_new_names:
        _check_topics(group, member, updated)
    records: list[GroupRecord] = []
    # A new member has a record even if it equals the one that a lost record would have left.
    if updated != member or member.member_id not in group.members:
        records.append(member_record(group.group_id, updated))
    epoch = _update_epoch(groups, group, member, updated, records)
    target = target_for(groups, group, epoch, member, updated, records)
    updated = _reconcile(groups, group, updated, target, records, has_new_names=has_new_names)
    groups.renew_session(group.group_id, updated.member_id)
    response = ShareGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=groups.settings.heartbeat_interval_ms(group.group_id),
    )
    if is_join or names is not None or updated.assigned != member.assigned:
        response.assignment = _assignment(updated.assigned)
    to_initialize = _to_initialize(groups, group, member, updated)
    if to_initialize:
        records.append(initializing_record(group, to_initialize))
    return CoordinatorResult(records=records, response=Outcome(response, to_initialize, epoch))


def _assignment(assigned: MemberAssignment) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def _check_topics(group: ShareGroup, old: ShareMember, new: ShareMember) -> None:
    """Reject a subscription with which the group would have too many topics, existing or not."""
    topics = len(group.subscriptions.topics_after([old], new))
    if topics > max(GROUP_TOPICS_MAX, len(group.subscriptions.topics)):
        raise InvalidRequestError(f"The members of a share group can't name more than {GROUP_TOPICS_MAX} topics.")


def _member(group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
    """Return the member as it is known, or a new one.

    Raises:
        KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH.
    """
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        log.info("Group %s: %s joins", quoted(group.group_id), quoted(request.member_id))
        return group.members.get(request.member_id) or ShareMember(member_id=request.member_id)
    member = group.member(request.member_id)
    if epoch > member.member_epoch:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a greater member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch not in (member.member_epoch, member.previous_member_epoch):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The share group member has a smaller member epoch ({epoch}) than the one known by the group coordinator "
            f"({member.member_epoch}), and it does not match the previous member epoch "
            f"({member.previous_member_epoch}). The member must abandon all its partitions and rejoin.",
        )
    return member


def _to_initialize(groups: ShareGroups, group: ShareGroup, old: ShareMember, new: ShareMember) -> TopicStates:
    """Return the share-partitions that this heartbeat must initialize."""
    # Most heartbeats change nothing: they must not check every topic of the group.
    is_same = old.subscribed_topic_names == new.subscribed_topic_names
    checked = (group.change_count, groups.topics.change_count)
    if is_same and group.initialized_checked == checked:
        return {}
    found = topics_to_initialize(
        group,
        groups.topics.existing(group.subscriptions.topics_after([old], new)),
        groups.topics,
        now_ms=groups.clock.monotonic_ms(),
        retry_ms=groups.settings.config.share_initialize_retry_interval_ms,
    )
    # A failed AlterShareGroupOffsets leaves initialized partitions there: they are not initialized again.
    awaits_state = group.state_partitions is not None and group.state_partitions.awaits_state()
    if is_same and not found and not awaits_state:
        group.initialized_checked = checked
    return found


def _update_epoch(
    groups: ShareGroups, group: ShareGroup, old: ShareMember, new: ShareMember, records: list[GroupRecord]
) -> int:
    """Return the group's epoch: incremented with subscriptions, topics, and share-partitions that are not assigned."""
    must_increment = old.subscribed_topic_names != new.subscribed_topic_names
    if group.assignment_epoch >= group.epoch:
        must_increment = must_increment or group.awaits_assignment(groups.topics)
    now_ms = groups.clock.monotonic_ms()
    if not must_increment and not group.has_stale_topics(groups.topics, now_ms):
        return group.epoch
    topics_hash = groups.topics.hash_of(group.subscriptions.topics_after([old], new))
    epoch = group.epoch
    if must_increment or topics_hash != group.metadata_hash:
        epoch += 1
        records.append(epoch_record(group.group_id, epoch, topics_hash))
        log.info("Group %s has epoch %d", quoted(group.group_id), epoch)
    group.note_refresh(groups.topics, now_ms, epoch)
    return epoch


def _reconcile(
    groups: ShareGroups,
    group: ShareGroup,
    member: ShareMember,
    target: Target[MemberAssignment],
    records: list[GroupRecord],
    *,
    has_new_names: bool,
) -> ShareMember:
    """Return the member with its target: at once, for no other member has to give anything up."""
    # Source: ShareGroupAssignmentBuilder.
    if not has_new_names and member.member_epoch == target.epoch:
        return member
    subscribed = groups.topics.named_among(target.assignment, member.subscribed_topic_names)
    assigned: MemberAssignment = {
        topic_id: partitions for topic_id, partitions in target.assignment.items() if topic_id in subscribed
    }
    if member.member_epoch == target.epoch:
        updated = replace(member, assigned=assigned or NO_ASSIGNMENT)
    else:
        updated = member.moved_to(target.epoch, assigned)
    if updated != member:
        records.append(current_assignment_record(group.group_id, updated))
    return updated
