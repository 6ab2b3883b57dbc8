"""What a request of a member of either protocol leads to: another epoch of the group, and the member's next step.

Source: GroupMetadataManager.updateSubscriptionMetadata, maybeReconcile, replaceMember of Apache Kafka 4.3.
"""

import logging
from dataclasses import replace

from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ASSIGNMENT_JOB, ConsumerGroups
from ottla.groups.consumer.member import ConsumerMember, MemberState
from ottla.groups.consumer.reconciliation import OwnedPartitions, Reconciliation
from ottla.groups.consumer.records import (
    current_assignment_record,
    epoch_record,
    member_record,
    member_tombstones,
    partition_metadata_tombstone,
    target_assignment_record,
)
from ottla.groups.consumer.state import is_transition
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import Target
from ottla.groups.modern.member_epochs import JOIN_EPOCH
from ottla.quoting import quoted
from ottla.types import format_uuid

log = logging.getLogger(__name__)


def new_member_id(groups: ConsumerGroups) -> str:
    return format_uuid(groups.classic.random.uuid())


def replace_static_member(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    current: ConsumerMember,
    member_id: str,
    records: list[GroupRecord],
) -> ConsumerMember:
    """Return the member that continues ``current`` under another id; add the records of the exchange."""
    returned = replace(current, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=0)
    records += member_tombstones(group.group_id, current.member_id)
    records.append(member_record(group.group_id, returned))
    target = group.target.get(current.member_id, {})
    records.append(target_assignment_record(group.group_id, member_id, target))
    records.append(current_assignment_record(group.group_id, returned))
    # Its target would be for the id that is gone.
    groups.jobs.cancel(ASSIGNMENT_JOB, group.group_id)
    return returned


def update_epoch(
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


def reconcile(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Target[MemberAssignment],
    owned: OwnedPartitions | None,
    records: list[GroupRecord],
    *,
    has_subscription_changed: bool,
) -> ConsumerMember:
    """Return the member after its next step; record it, and limit the time for a revocation.

    That of a classic member is limited by its rebalance timeout: it is notified by its next heartbeat, and joins.
    """
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
        if updated.state is MemberState.UNREVOKED_PARTITIONS and not updated.uses_classic_protocol:
            groups.await_revocation(group.group_id, updated)
        else:
            groups.end_revocation(group.group_id, updated.member_id)
    return updated
