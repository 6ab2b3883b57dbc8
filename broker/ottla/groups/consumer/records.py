"""Records of consumer groups, from and to members and assignments.

The order of several records of one change matters to Kafka, which checks it when it loads them: a member's tombstones
are those of its current assignment, its target assignment, its subscription; a group's own tombstone is the last.

Source: GroupCoordinatorRecordHelpers, Utils.assignmentFromTopicPartitions of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember, EpochAssignment, MemberState
from ottla.groups.log import GroupRecord
from ottla.groups.modern.counts import ResolvedRegex
from ottla.types import Uuid
from ottla.wire.messages import group_log as log


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Return the record of a member's subscription."""
    return GroupRecord(
        log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        log.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def with_subscription(member: ConsumerMember, value: log.ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """Return the member with what `member_record` stores."""
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=value.classic_member_metadata,
    )


def current_assignment_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """Return the record of a member's epochs, state, and assigned and revoked partitions."""
    return GroupRecord(
        log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        log.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_with_epochs(member.assigned),
            partitions_pending_revocation=_with_epochs(member.pending_revocation),
        ),
    )


def _with_epochs(assignment: EpochAssignment) -> list[log.TopicPartitions]:
    return [
        log.TopicPartitions(topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values()))
        for topic_id, partitions in assignment.items()
    ]


def with_current_assignment(
    member: ConsumerMember, value: log.ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerMember:
    """Return the member with what `current_assignment_record` stores."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_epoch_assignment(value.assigned_partitions, value.member_epoch),
        pending_revocation=_epoch_assignment(value.partitions_pending_revocation, value.member_epoch),
    )


def _epoch_assignment(topics: Iterable[log.TopicPartitions], member_epoch: int) -> EpochAssignment:
    """Return an assignment; the epochs of records before Kafka 4.3, which have none, are that of the member."""
    assignment: dict[Uuid, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is not None and len(epochs) == len(topic.partitions):
            assignment[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
        else:
            assignment[topic.topic_id] = dict.fromkeys(topic.partitions, max(member_epoch, 0))
    return assignment


def target_assignment_record(group_id: str, member_id: str, target: MemberAssignment) -> GroupRecord:
    return GroupRecord(
        log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        log.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                log.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in target.items()
            ]
        ),
    )


def target_of_record(value: log.ConsumerGroupTargetAssignmentMemberValue) -> MemberAssignment:
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> GroupRecord:
    """Return the record that completes a target assignment; ``assigned_at_ms`` by the wall clock."""
    return GroupRecord(
        log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        log.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        log.ConsumerGroupMetadataKey(group_id=group_id),
        log.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> GroupRecord:
    """Return the record of a resolved regular expression; its tombstone for None."""
    value = None
    if resolved is not None:
        value = log.ConsumerGroupRegularExpressionValue(
            topics=list(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
    return GroupRecord(log.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value)


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """Return the tombstone of the subscription metadata of Kafka 4.0, which later releases only remove."""
    return GroupRecord(log.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of one member."""
    return [
        GroupRecord(log.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, renamed: Mapping[str, str] | None = None) -> list[GroupRecord]:
    """Return the tombstones of a group and of all of its members.

    ``renamed``: new ids, by old ones, of members that the records before have replaced.
    """
    group_id = group.group_id
    new_ids = renamed or {}
    current, target, subscription = [], [], []
    for known_id in group.members:
        member_id = new_ids.get(known_id, known_id)
        tombstones = member_tombstones(group_id, member_id)
        current.append(tombstones[0])
        target.append(tombstones[1])
        subscription.append(tombstones[2])
    return [
        *current,
        *target,
        GroupRecord(log.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        *subscription,
        *(regex_record(group_id, regex, None) for regex in group.subscriptions.resolved),
        partition_metadata_tombstone(group_id),
        GroupRecord(log.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
