"""Groups of every type, as their coordinators describe them, in one form."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from ottla.client.results import (
    GroupDescription,
    MemberDescription,
    MemberTasks,
    StreamsDescription,
    SubtopologyDescription,
)
from ottla.types import Endpoint, TopicPartition
from ottla.wire.messages.consumer_group_describe import Assignment as ConsumerAssignment
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_describe import Member as ConsumerMember
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.messages.describe_groups import DescribedGroup as DescribeGroupsGroup
from ottla.wire.messages.describe_groups import DescribedGroupMember
from ottla.wire.messages.share_group_describe import Assignment as ShareAssignment
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ottla.wire.messages.share_group_describe import Member as ShareMember
from ottla.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ottla.wire.messages.streams_group_describe import Member as StreamsMember
from ottla.wire.messages.streams_group_describe import TaskIds

CONSUMER_PROTOCOL_TYPE = "consumer"

MemberT = TypeVar("MemberT", DescribedGroupMember, ConsumerMember, ShareMember, StreamsMember)


def parse_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a classic consumer's assignment, sorted; of other protocol types none.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    if len(data) <= 2:
        return ()
    version = int.from_bytes(data[:2], "big", signed=True)
    newest = ConsumerProtocolAssignment.versions.last
    # A later version may add fields at the end; the known ones are at the start.
    assignment, _ = ConsumerProtocolAssignment.decode_from(data, min(version, newest), 2)
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in assignment.assigned_partitions
            for partition in topic.partitions
        )
    )


def classic_group(group: DescribeGroupsGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a classic group; members of other protocol types than "consumer" have no assignment that is readable."""
    is_consumer = group.protocol_type in (CONSUMER_PROTOCOL_TYPE, "")
    return _group(
        group,
        coordinator,
        group.members,
        group_type="classic",
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        instance_id_of=lambda member: member.group_instance_id,
        assignment_of=lambda member: parse_assignment(member.member_assignment) if is_consumer else (),
    )


def consumer_group(group: DescribedConsumerGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a group of the consumer protocol."""
    return _group(
        group,
        coordinator,
        group.members,
        group_type="consumer",
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        instance_id_of=lambda member: member.instance_id,
        assignment_of=lambda member: _flat(member.assignment),
    )


def share_group(group: DescribedShareGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a share group, of whose partitions each may be assigned to several members."""
    return _group(
        group,
        coordinator,
        group.members,
        group_type="share",
        protocol_type="share",
        assignor=group.assignor_name,
        instance_id_of=lambda _: None,
        assignment_of=lambda member: _flat(member.assignment),
    )


def streams_group(group: DescribedStreamsGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a streams group; the partitions of a member are those that its active tasks read."""
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or []
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies
    }
    return _group(
        group,
        coordinator,
        group.members,
        group_type="streams",
        protocol_type="streams",
        assignor="",
        instance_id_of=lambda member: member.instance_id,
        assignment_of=lambda member: (
            TopicPartition(topic, partition)
            for task in member.assignment.active_tasks
            for topic in sources.get(task.subtopology_id, ())
            for partition in task.partitions
        ),
        tasks_of=_member_tasks,
        streams=StreamsDescription(
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            topology_epoch=None if group.topology is None else group.topology.epoch,
            subtopologies=tuple(
                SubtopologyDescription(
                    subtopology_id=each.subtopology_id,
                    source_topics=tuple(each.source_topics),
                    repartition_source_topics=tuple(topic.name for topic in each.repartition_source_topics),
                    repartition_sink_topics=tuple(each.repartition_sink_topics),
                    changelog_topics=tuple(topic.name for topic in each.state_changelog_topics),
                )
                for each in subtopologies
            ),
        ),
    )


def _member_tasks(member: StreamsMember) -> MemberTasks:
    return MemberTasks(
        member_epoch=member.member_epoch,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        active=_task_ids(member.assignment.active_tasks),
        standby=_task_ids(member.assignment.standby_tasks),
        warmup=_task_ids(member.assignment.warmup_tasks),
    )


def _task_ids(tasks: Iterable[TaskIds]) -> tuple[str, ...]:
    pairs = sorted((task.subtopology_id, partition) for task in tasks for partition in task.partitions)
    return tuple(f"{subtopology_id}_{partition}" for subtopology_id, partition in pairs)


def _flat(assignment: ConsumerAssignment | ShareAssignment) -> Iterator[TopicPartition]:
    return (
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _group(
    group: DescribeGroupsGroup | DescribedConsumerGroup | DescribedShareGroup | DescribedStreamsGroup,
    coordinator: Endpoint,
    members: Sequence[MemberT],
    *,
    group_type: str,
    protocol_type: str,
    assignor: str,
    instance_id_of: Callable[[MemberT], str | None],
    assignment_of: Callable[[MemberT], Iterable[TopicPartition]],
    tasks_of: Callable[[MemberT], MemberTasks] | None = None,
    streams: StreamsDescription | None = None,
) -> GroupDescription:
    return GroupDescription(
        group_id=group.group_id,
        type=group_type,
        state=group.group_state,
        protocol_type=protocol_type,
        assignor=assignor,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=instance_id_of(member),
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=tuple(sorted(assignment_of(member))),
                tasks=None if tasks_of is None else tasks_of(member),
            )
            for member in members
        ),
        streams=streams,
    )
