"""Groups of every type, as their coordinators describe them, in one form."""

from ottla.client.results import GroupDescription, MemberDescription
from ottla.types import Endpoint, TopicPartition
from ottla.wire.messages.consumer_group_describe import Assignment as ConsumerAssignment
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from ottla.wire.messages.describe_groups import DescribedGroup as DescribeGroupsGroup
from ottla.wire.messages.share_group_describe import Assignment as ShareAssignment
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ottla.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup

CONSUMER_PROTOCOL_TYPE = "consumer"


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
    return GroupDescription(
        group_id=group.group_id,
        type="classic",
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=parse_assignment(member.member_assignment) if is_consumer else (),
            )
            for member in group.members
        ),
    )


def consumer_group(group: DescribedConsumerGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a group of the consumer protocol."""
    return GroupDescription(
        group_id=group.group_id,
        type="consumer",
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=_flat(member.assignment),
            )
            for member in group.members
        ),
    )


def _flat(assignment: ConsumerAssignment | ShareAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def share_group(group: DescribedShareGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a share group, of whose partitions each may be assigned to several members."""
    return GroupDescription(
        group_id=group.group_id,
        type="share",
        state=group.group_state,
        protocol_type="share",
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=None,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=_flat(member.assignment),
            )
            for member in group.members
        ),
    )


def streams_group(group: DescribedStreamsGroup, coordinator: Endpoint) -> GroupDescription:
    """Return a streams group; the partitions of a member are those that its active tasks read."""
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or []
    sources = {
        each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
        for each in subtopologies
    }
    return GroupDescription(
        group_id=group.group_id,
        type="streams",
        state=group.group_state,
        protocol_type="streams",
        assignor="",
        coordinator=coordinator,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                assignment=tuple(
                    sorted(
                        TopicPartition(topic, partition)
                        for task in member.assignment.active_tasks
                        for topic in sources.get(task.subtopology_id, ())
                        for partition in task.partitions
                    )
                ),
            )
            for member in group.members
        ),
    )
