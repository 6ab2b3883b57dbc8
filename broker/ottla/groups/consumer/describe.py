"""A consumer group as ConsumerGroupDescribe shows it.

Source: ConsumerGroup.asDescribedGroup, ConsumerGroupMember.asConsumerGroupDescribeMember of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.groups.assignors.types import NO_ASSIGNMENT, MemberAssignment
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.modern.topics import ClusterTopics
from ottla.purgatory.steps import Steps, map_in_steps
from ottla.types import Uuid
from ottla.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe(group: ConsumerGroup, topics: ClusterTopics, assignors: Sequence[str]) -> Steps[DescribedGroup]:
    """Return state, epochs and members, all as they are now: members are immutable."""
    targets = {member_id: group.target.get(member_id, NO_ASSIGNMENT) for member_id in group.members}
    members = list(group.members.values())
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(assignors),
    )
    described.members = yield from map_in_steps(
        lambda member: _describe_member(member, targets[member.member_id], topics), members
    )
    return described


def _describe_member(member: ConsumerMember, target: MemberAssignment, topics: ClusterTopics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_named(member.owned_partitions(), topics),
        target_assignment=_named(target, topics),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _named(partitions: Mapping[Uuid, Iterable[int]], topics: ClusterTopics) -> Assignment:
    """Return an assignment with the names of its topics, without those that are deleted."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if (name := topics.name_of(topic_id)) is not None
        ]
    )
