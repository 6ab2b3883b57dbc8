"""The replay of a streams group's records: the only way in which its state changes.

Source: GroupMetadataManager.replay of Apache Kafka 4.3.
"""

from typing import Final

from ottla.groups.modern.member_epochs import LEAVE_EPOCH
from ottla.groups.modern.replay import RecordReplay, replay_target_epoch
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import NO_MEMBER_TASKS, MemberState, StreamsMember
from ottla.groups.streams.records import target_of_record, with_current_assignment, with_metadata
from ottla.groups.streams.topology import topology_of_record
from ottla.wire.codec import Message
from ottla.wire.messages import streams_group_log as log


def _replay_epoch(group: StreamsGroup, _: Message, value: log.StreamsGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_topology_epoch = value.validated_topology_epoch
    group.assignment_configs = {config.key: config.value for config in value.last_assignment_configs or ()}


def _replay_topology(group: StreamsGroup, _: Message, value: log.StreamsGroupTopologyValue | None) -> None:
    group.put_topology(None if value is None else topology_of_record(value))


def _replay_member(
    group: StreamsGroup,
    key: log.StreamsGroupMemberMetadataKey,
    value: log.StreamsGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
        return
    known = group.members.get(key.member_id) or StreamsMember(member_id=key.member_id)
    group.put_member(with_metadata(known, value))


def _replay_current_assignment(
    group: StreamsGroup,
    key: log.StreamsGroupCurrentMemberAssignmentKey,
    value: log.StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    known = group.members.get(key.member_id)
    if value is not None:
        group.put_member(with_current_assignment(known or StreamsMember(member_id=key.member_id), value))
    elif known is not None:
        # The tombstone of the member itself follows.
        group.put_member(known.moved_to(MemberState.STABLE, LEAVE_EPOCH, NO_MEMBER_TASKS))


def _replay_target(
    group: StreamsGroup,
    key: log.StreamsGroupTargetAssignmentMemberKey,
    value: log.StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    group.put_target(key.member_id, None if value is None else target_of_record(value))


REPLAY: Final[RecordReplay[StreamsGroup]] = RecordReplay(
    StreamsGroup,
    log.StreamsGroupMetadataKey,
    {
        log.StreamsGroupMetadataKey: _replay_epoch,
        log.StreamsGroupTopologyKey: _replay_topology,
        log.StreamsGroupMemberMetadataKey: _replay_member,
        log.StreamsGroupTargetAssignmentMetadataKey: replay_target_epoch,
        log.StreamsGroupTargetAssignmentMemberKey: _replay_target,
        log.StreamsGroupCurrentMemberAssignmentKey: _replay_current_assignment,
    },
)
