"""A share group as ShareGroupDescribe shows it.

Source: ShareGroup.asDescribedGroup, ShareGroupMember.asShareGroupDescribeMember of Apache Kafka 4.3.
"""

from ottla.groups.modern.topics import ClusterTopics
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.member import ShareMember
from ottla.groups.share.target import ASSIGNOR
from ottla.purgatory.steps import Steps, map_in_steps
from ottla.wire.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions


def describe(group: ShareGroup, topics: ClusterTopics) -> Steps[DescribedGroup]:
    """Return state, epochs and members, all as they are now: members are immutable."""
    members = list(group.members.values())
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR.name,
    )
    described.members = yield from map_in_steps(lambda member: _describe_member(member, topics), members)
    return described


def _describe_member(member: ShareMember, topics: ClusterTopics) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions))
                for topic_id, partitions in member.assigned.items()
                if (name := topics.name_of(topic_id)) is not None
            ]
        ),
    )
