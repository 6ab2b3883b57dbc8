"""The replay of a share group's records: the only way in which its state changes.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from typing import Final

from ottla.groups.assignors.types import NO_ASSIGNMENT
from ottla.groups.modern.member_epochs import LEAVE_EPOCH
from ottla.groups.modern.replay import RecordReplay, replay_target_epoch
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import ShareMember
from ottla.groups.share.records import (
    state_partitions_of_record,
    target_of_record,
    with_current_assignment,
    with_subscription,
)
from ottla.wire.codec import Message
from ottla.wire.messages import share_group_log as log


def _replay_epoch(group: ShareGroup, _: Message, value: log.ShareGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _replay_member(
    group: ShareGroup,
    key: log.ShareGroupMemberMetadataKey,
    value: log.ShareGroupMemberMetadataValue | None,
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
) -> None:
    group.put_target(key.member_id, None if value is None else target_of_record(value))


def _replay_state_partitions(
    group: ShareGroup, _: Message, value: log.ShareGroupStatePartitionMetadataValue | None
) -> None:
    group.state_partitions = None if value is None else state_partitions_of_record(value)


REPLAY: Final[RecordReplay[ShareGroup]] = RecordReplay(
    ShareGroup,
    log.ShareGroupMetadataKey,
    {
        log.ShareGroupMetadataKey: _replay_epoch,
        log.ShareGroupMemberMetadataKey: _replay_member,
        log.ShareGroupTargetAssignmentMetadataKey: replay_target_epoch,
        log.ShareGroupTargetAssignmentMemberKey: _replay_target,
        log.ShareGroupCurrentMemberAssignmentKey: _replay_current_assignment,
        log.ShareGroupStatePartitionMetadataKey: _replay_state_partitions,
    },
)
