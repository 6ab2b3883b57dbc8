"""The replay of a consumer group's records: the only way in which its state changes.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from typing import Final

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import NO_PARTITIONS, ConsumerMember, MemberState
from ottla.groups.consumer.records import target_of_record, with_current_assignment, with_subscription
from ottla.groups.modern.counts import ResolvedRegex
from ottla.groups.modern.member_epochs import LEAVE_EPOCH
from ottla.groups.modern.replay import RecordReplay, replay_target_epoch
from ottla.wire.codec import Message
from ottla.wire.messages import group_log as log


def _replay_epoch(group: ConsumerGroup, _: Message, value: log.ConsumerGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _replay_partition_metadata(group: ConsumerGroup, _: Message, value: Message | None) -> None:
    group.has_partition_metadata = value is not None


def _replay_member(
    group: ConsumerGroup,
    key: log.ConsumerGroupMemberMetadataKey,
    value: log.ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    known = group.members.get(key.member_id) or ConsumerMember(member_id=key.member_id)
    group.put_member(with_subscription(known, value))


def _replay_current_assignment(
    group: ConsumerGroup,
    key: log.ConsumerGroupCurrentMemberAssignmentKey,
    value: log.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        group.put_member(with_current_assignment(known or ConsumerMember(member_id=key.member_id), value))
    elif known is not None:
        # The tombstone of the member itself follows.
        group.put_member(known.moved_to(MemberState.STABLE, LEAVE_EPOCH, NO_PARTITIONS))


def _replay_target(
    group: ConsumerGroup,
    key: log.ConsumerGroupTargetAssignmentMemberKey,
    value: log.ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    group.put_target(key.member_id, None if value is None else target_of_record(value))


def _replay_regex(
    group: ConsumerGroup,
    key: log.ConsumerGroupRegularExpressionKey,
    value: log.ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(tuple(sorted(set(value.topics))), value.version, value.timestamp)
    group.subscriptions.resolve(key.regular_expression, resolved)


REPLAY: Final[RecordReplay[ConsumerGroup]] = RecordReplay(
    ConsumerGroup,
    log.ConsumerGroupMetadataKey,
    {
        log.ConsumerGroupMetadataKey: _replay_epoch,
        log.ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
        log.ConsumerGroupMemberMetadataKey: _replay_member,
        log.ConsumerGroupTargetAssignmentMetadataKey: replay_target_epoch,
        log.ConsumerGroupTargetAssignmentMemberKey: _replay_target,
        log.ConsumerGroupCurrentMemberAssignmentKey: _replay_current_assignment,
        log.ConsumerGroupRegularExpressionKey: _replay_regex,
    },
)
