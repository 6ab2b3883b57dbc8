"""The replay of a consumer group's records: the only way in which its state changes.

Kafka does not load a log in which a group's tombstone comes before those of its members. Here the newest record counts:
a group's tombstone removes its members too.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import LEAVE_EPOCH, NO_PARTITIONS, ConsumerMember, MemberState
from ottla.groups.consumer.records import target_of_record, with_current_assignment, with_subscription
from ottla.groups.log import GroupRecord
from ottla.groups.modern.counts import ResolvedRegex
from ottla.groups.modern.group import NO_ASSIGNMENT_EPOCH
from ottla.wire.codec import Message
from ottla.wire.messages import group_log as log


def is_consumer_group_record(record: GroupRecord) -> bool:
    return type(record.key) in _REPLAYS


def replay_record(group: ConsumerGroup, record: GroupRecord) -> bool:
    """Change ``group`` as the record says; return True when the record deletes the group itself."""
    if record.value is None and isinstance(record.key, log.ConsumerGroupMetadataKey):
        return True
    _REPLAYS[type(record.key)](group, record.key, record.value)
    return False


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
    if value is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = target_of_record(value)


def _replay_target_epoch(
    group: ConsumerGroup, _: Message, value: log.ConsumerGroupTargetAssignmentMetadataValue | None
) -> None:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def _replay_regex(
    group: ConsumerGroup,
    key: log.ConsumerGroupRegularExpressionKey,
    value: log.ConsumerGroupRegularExpressionValue | None,
) -> None:
    resolved = None
    if value is not None:
        resolved = ResolvedRegex(tuple(sorted(set(value.topics))), value.version, value.timestamp)
    group.subscriptions.resolve(key.regular_expression, resolved)


_REPLAYS: Final[dict[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    log.ConsumerGroupMetadataKey: _replay_epoch,
    log.ConsumerGroupPartitionMetadataKey: _replay_partition_metadata,
    log.ConsumerGroupMemberMetadataKey: _replay_member,
    log.ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    log.ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    log.ConsumerGroupCurrentMemberAssignmentKey: _replay_current_assignment,
    log.ConsumerGroupRegularExpressionKey: _replay_regex,
}
