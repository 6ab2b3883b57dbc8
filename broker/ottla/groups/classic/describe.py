"""A classic group as DescribeGroups shows it.

Source: GroupMetadataManager.describeGroups, ClassicGroup.asListedGroup.
"""

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.state import ClassicGroupState
from ottla.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember


def describe(group: ClassicGroup) -> DescribedGroup:
    """Return state and members; protocol and metadata only of a Stable group, whose members agree on them."""
    name = group.protocol_name if group.state is ClassicGroupState.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=name or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if name is None else member.metadata(name),
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )
