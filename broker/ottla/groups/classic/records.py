"""Conversion between a classic group and its record in ``__consumer_offsets``.

Source: GroupCoordinatorRecordHelpers.newGroupMetadataRecord, GroupMetadataManager.replay(GroupMetadataKey).
"""

from collections.abc import Mapping
from typing import Final

from ottla.errors import ProtocolError
from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.member import ClassicMember
from ottla.groups.classic.state import ClassicGroupState
from ottla.groups.log import GroupRecord, group_metadata_record
from ottla.quoting import quoted
from ottla.wire.messages.group_log import GroupMetadataValue, MemberMetadata
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

NOT_SET: Final = -1


def record_of(group: ClassicGroup, assignments: Mapping[str, bytes], *, has_leader: bool = True) -> GroupRecord:
    """Return the record of ``group`` with its next ``assignments``, by member id.

    Without a leader, the coordinator that loads the record makes the members rebalance.
    """
    name = group.protocol_name
    members = [] if name is None else [_stored(group.members[id_], name, assignments[id_]) for id_ in group.members]
    return group_metadata_record(
        group.group_id,
        GroupMetadataValue(
            protocol_type=group.protocol_type or "",
            generation=group.generation_id,
            protocol=name,
            leader=group.leader_id if has_leader else None,
            current_state_timestamp=NOT_SET if group.state_timestamp_ms is None else group.state_timestamp_ms,
            members=members,
        ),
    )


def _stored(member: ClassicMember, protocol_name: str, assignment: bytes) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=assignment,
    )


def new_group_record(group: ClassicGroup) -> GroupRecord:
    """Return the record that creates a group before its first generation."""
    return group_metadata_record(
        group.group_id,
        GroupMetadataValue(
            protocol=None,
            leader=None,
            current_state_timestamp=NOT_SET if group.state_timestamp_ms is None else group.state_timestamp_ms,
        ),
    )


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group of a record: Stable with members, else Empty.

    Raises:
        ProtocolError: the record contradicts itself, see `_check_value`.
    """
    _check_value(group_id, value)
    group = ClassicGroup(group_id)
    group.generation_id = value.generation
    group.protocol_name = value.protocol
    group.leader_id = value.leader if value.members else None
    group.must_rebalance = bool(value.members) and value.leader is None
    if value.current_state_timestamp != NOT_SET:
        group.state_timestamp_ms = value.current_state_timestamp
    for stored in value.members:
        group.add(
            ClassicMember(
                member_id=stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=(
                    stored.session_timeout if stored.rebalance_timeout == NOT_SET else stored.rebalance_timeout
                ),
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type,
                protocols=[JoinGroupRequestProtocol(name=value.protocol or "", metadata=stored.subscription)],
                assignment=stored.assignment,
            )
        )
    group.protocol_type = value.protocol_type or None
    if group.members:
        group.state = ClassicGroupState.STABLE
    group.keep_subscriptions()
    return group


def _check_value(group_id: str, value: GroupMetadataValue) -> None:
    """Reject a record that no coordinator writes, and with which requests of members could not be handled.

    Raises:
        ProtocolError: two of its members have the same id or instance id, members have no protocol, the leader is no
            member, or the generation is negative.
    """
    ids = {member.member_id for member in value.members}
    instances = [member.group_instance_id for member in value.members if member.group_instance_id is not None]
    if len(ids) < len(value.members) or len(set(instances)) < len(instances):
        raise ProtocolError(f"the record of group {quoted(group_id)} has a member twice")
    if ids and value.protocol is None:
        raise ProtocolError(f"the record of group {quoted(group_id)} has members and no protocol")
    if ids and value.leader is not None and value.leader not in ids:
        raise ProtocolError(f"the record of group {quoted(group_id)} has the leader {quoted(value.leader)}, no member")
    if value.generation < 0:
        raise ProtocolError(f"the record of group {quoted(group_id)} has generation {value.generation}")
