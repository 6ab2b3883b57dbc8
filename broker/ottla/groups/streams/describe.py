"""A streams group as StreamsGroupDescribe shows it.

Source: StreamsGroup.asDescribedGroup, StreamsGroupMember.asStreamsGroupDescribeMember of Apache Kafka 4.3.
"""

from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import EpochTasks, MemberTasks, StreamsMember
from ottla.groups.streams.tasks import NO_TASKS, TaskAssignment, Tasks
from ottla.groups.streams.topics.configured import described_configured_topology
from ottla.groups.streams.topology import described_topology
from ottla.purgatory.steps import Steps, map_in_steps
from ottla.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    TaskIds,
    Topology,
)


def describe(group: StreamsGroup) -> Steps[DescribedGroup]:
    """Return state, epochs, topology and members, all as they are now: they are immutable."""
    members = [(member, group.target.get(member.member_id, NO_TASKS)) for member in group.members.values()]
    described = DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
    )
    yield None
    described.members = yield from map_in_steps(lambda entry: _describe_member(*entry), members)
    return described


def _topology(group: StreamsGroup) -> Topology | None:
    """Return the topology with its numbers of partitions if all of its topics are there, else as it was declared."""
    if group.configured is not None and group.configured.is_ready:
        return described_configured_topology(group.configured)
    return None if group.topology is None else described_topology(group.topology)


def _describe_member(member: StreamsMember, target: TaskAssignment) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: MemberTasks | TaskAssignment) -> Assignment:
    return Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: Tasks | EpochTasks) -> list[TaskIds]:
    return [
        TaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]
