"""Records of share groups, from and to members, assignments and state partitions.

The order of several records of one change matters to Kafka, which checks it when it loads them: a member's tombstones
are those of its current assignment, its target assignment, its subscription; a group's own tombstone is the last.

Source: GroupCoordinatorRecordHelpers of Apache Kafka 4.3.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ottla.groups.assignors.types import MemberAssignment
from ottla.groups.log import GroupRecord
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import ShareMember
from ottla.groups.share.state_partitions import StatePartitions, StateTopic, TopicStates
from ottla.wire.messages import share_group_log as log

_STABLE: Final = 0
"""The only state of a member."""


def member_record(group_id: str, member: ShareMember) -> GroupRecord:
    """Return the record of a member's subscription."""
    return GroupRecord(
        log.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        log.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.subscribed_topic_names),
        ),
    )


def with_subscription(member: ShareMember, value: log.ShareGroupMemberMetadataValue) -> ShareMember:
    """Return the member with what `member_record` stores."""
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(value.subscribed_topic_names),
    )


def current_assignment_record(group_id: str, member: ShareMember) -> GroupRecord:
    """Return the record of a member's epochs and assigned partitions."""
    return GroupRecord(
        log.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        log.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=_STABLE,
            assigned_partitions=[
                log.TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
            ],
        ),
    )


def with_current_assignment(member: ShareMember, value: log.ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
    """Return the member with what `current_assignment_record` stores."""
    return replace(
        member,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned={
            topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions if topic.partitions
        },
    )


def target_assignment_record(group_id: str, member_id: str, target: MemberAssignment) -> GroupRecord:
    return GroupRecord(
        log.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        log.ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                log.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in target.items()
            ]
        ),
    )


def target_of_record(value: log.ShareGroupTargetAssignmentMemberValue) -> MemberAssignment:
    # Kafka keeps topics of which the member has no partition any more.
    return {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions}


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> GroupRecord:
    """Return the record that completes a target assignment; ``assigned_at_ms`` by the wall clock."""
    return GroupRecord(
        log.ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        log.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    return GroupRecord(
        log.ShareGroupMetadataKey(group_id=group_id),
        log.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def state_partitions_record(group_id: str, state: StatePartitions) -> GroupRecord:
    """Return the record of all share-partitions that have state, are to get it, or are to lose it."""
    return GroupRecord(
        log.ShareGroupStatePartitionMetadataKey(group_id=group_id),
        log.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_topics(state.initializing),
            initialized_topics=_topics(state.initialized),
            deleting_topics=[
                log.TopicInfo(topic_id=topic_id, topic_name=name) for topic_id, name in state.deleting.items()
            ],
        ),
    )


def _topics(topics: TopicStates) -> list[log.TopicPartitionsInfo]:
    return [
        log.TopicPartitionsInfo(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def state_partitions_of_record(value: log.ShareGroupStatePartitionMetadataValue) -> StatePartitions:
    """Return what `state_partitions_record` stores."""
    return StatePartitions(
        initializing=_topic_states(value.initializing_topics),
        initialized=_topic_states(value.initialized_topics),
        deleting={topic.topic_id: topic.topic_name for topic in value.deleting_topics},
    )


def _topic_states(topics: Iterable[log.TopicPartitionsInfo]) -> TopicStates:
    return {topic.topic_id: StateTopic(topic.topic_name, frozenset(topic.partitions)) for topic in topics}


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of one member."""
    return [
        GroupRecord(log.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ShareGroup) -> list[GroupRecord]:
    """Return the tombstones of a group without members."""
    assert group.is_empty, f"group {group.group_id} has members"
    return [
        GroupRecord(log.ShareGroupTargetAssignmentMetadataKey(group_id=group.group_id), None),
        GroupRecord(log.ShareGroupStatePartitionMetadataKey(group_id=group.group_id), None),
        GroupRecord(log.ShareGroupMetadataKey(group_id=group.group_id), None),
    ]
