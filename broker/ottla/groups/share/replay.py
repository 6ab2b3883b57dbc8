"""The replay of a share group's records: the only way in which its state changes.

Kafka does not load a log in which a group's tombstone comes before those of its members. Here the newest record counts:
a group's tombstone removes its members too.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.groups.assignors.types import NO_ASSIGNMENT
from ottla.groups.log import GroupRecord
from ottla.groups.modern.group import NO_ASSIGNMENT_EPOCH
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import LEAVE_EPOCH, ShareMember
from ottla.groups.share.records import (
    state_partitions_of_record,
    target_of_record,
    with_current_assignment,
    with_subscription,
)
from ottla.wire.codec import Message
from ottla.wire.messages import share_group_log as log


def is_share_group_record(record: GroupRecord) -> bool:
    return type(record.key) in _REPLAYS


def replay_record(group: ShareGroup, record: GroupRecord, now_ms: int) -> bool:
    """Change ``group`` as the record says; return True when the record deletes the group. ``now_ms`` is monotonic."""
    if record.value is None and isinstance(record.key, log.ShareGroupMetadataKey):
        return True
    group.change_count += 1
    _REPLAYS[type(record.key)](group, record.key, record.value, now_ms)
    return False


def _replay_epoch(group: ShareGroup, _: Message, value: log.ShareGroupMetadataValue, __: int) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _replay_member(
    group: ShareGroup,
    key: log.ShareGroupMemberMetadataKey,
    value: log.ShareGroupMemberMetadataValue | None,
    _: int,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    known = group.members.get(key.member_id) or ShareMember(member_id=key.member_id)
    group.put_member(with_subscription(known, value))


def _replay_current_assignment(
    group: ShareGroup,
    key: log.ShareGroupCurrentMemberAssignmentKey,
    value: log.ShareGroupCurrentMemberAssignmentValue | None,
    _: int,
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        group.put_member(with_current_assignment(known or ShareMember(member_id=key.member_id), value))
    elif known is not None:
        # The tombstone of the member itself follows.
        group.put_member(known.moved_to(LEAVE_EPOCH, NO_ASSIGNMENT))


def _replay_target(
    group: ShareGroup,
    key: log.ShareGroupTargetAssignmentMemberKey,
    value: log.ShareGroupTargetAssignmentMemberValue | None,
    _: int,
) -> None:
    group.put_target(key.member_id, None if value is None else target_of_record(value))


def _replay_target_epoch(
    group: ShareGroup, _: Message, value: log.ShareGroupTargetAssignmentMetadataValue | None, __: int
) -> None:
    group.assignment_epoch = NO_ASSIGNMENT_EPOCH if value is None else value.assignment_epoch
    group.assigned_at_ms = 0 if value is None else value.assignment_timestamp


def _replay_state_partitions(
    group: ShareGroup, _: Message, value: log.ShareGroupStatePartitionMetadataValue | None, now_ms: int
) -> None:
    group.state_partitions = None if value is None else state_partitions_of_record(value, now_ms)


_REPLAYS: Final[dict[type[Message], Callable[[ShareGroup, Any, Any, int], None]]] = {
    log.ShareGroupMetadataKey: _replay_epoch,
    log.ShareGroupMemberMetadataKey: _replay_member,
    log.ShareGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    log.ShareGroupTargetAssignmentMemberKey: _replay_target,
    log.ShareGroupCurrentMemberAssignmentKey: _replay_current_assignment,
    log.ShareGroupStatePartitionMetadataKey: _replay_state_partitions,
}
