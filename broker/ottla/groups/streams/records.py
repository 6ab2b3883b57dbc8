"""Records of streams groups, from and to members, tasks and topologies.

The order of several records of one change matters to Kafka, which checks it when it loads them: a member's tombstones
are those of its current assignment, its target assignment, its metadata; a group's are those of the target's epoch, of
the group's epoch, of the topology.

Source: StreamsCoordinatorRecordHelpers of Apache Kafka 4.3.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.groups.log import GroupRecord
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.member import EpochTasks, MemberState, MemberTasks, StreamsMember
from ottla.groups.streams.tasks import TaskAssignment, Tasks
from ottla.groups.streams.topology import Topology, topology_record_value
from ottla.wire.messages import streams_group_log as log
from ottla.wire.messages.streams_group_log import StreamsGroupCurrentMemberAssignmentValueTaskIds as CurrentTaskIds
from ottla.wire.messages.streams_group_log import StreamsGroupTargetAssignmentMemberValueTaskIds as TargetTaskIds


def member_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """Return the record of what a member says of itself."""
    endpoint = member.user_endpoint
    return GroupRecord(
        log.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        log.StreamsGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else log.Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[log.KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())],
        ),
    )


def with_metadata(member: StreamsMember, value: log.StreamsGroupMemberMetadataValue) -> StreamsMember:
    """Return the member with what `member_record` stores."""
    endpoint = value.user_endpoint
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags={tag.key: tag.value for tag in value.client_tags},
    )


def current_assignment_record(group_id: str, member: StreamsMember) -> GroupRecord:
    """Return the record of a member's epochs, state and tasks."""
    assigned, revoked = member.assigned, member.pending_revocation
    return GroupRecord(
        log.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        log.StreamsGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            active_tasks=_with_epochs(assigned.active),
            standby_tasks=_current(assigned.standby),
            warmup_tasks=_current(assigned.warmup),
            active_tasks_pending_revocation=_with_epochs(revoked.active),
            standby_tasks_pending_revocation=_current(revoked.standby),
            warmup_tasks_pending_revocation=_current(revoked.warmup),
        ),
    )


def _with_epochs(tasks: EpochTasks) -> list[CurrentTaskIds]:
    entries: list[CurrentTaskIds] = []
    for subtopology_id, epochs in sorted(tasks.items()):
        partitions = sorted(epochs)
        entries.append(
            CurrentTaskIds(
                subtopology_id=subtopology_id,
                partitions=partitions,
                assignment_epochs=[epochs[partition] for partition in partitions],
            )
        )
    return entries


def _current(tasks: Tasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def with_current_assignment(
    member: StreamsMember, value: log.StreamsGroupCurrentMemberAssignmentValue
) -> StreamsMember:
    """Return the member with what `current_assignment_record` stores."""
    epoch = value.member_epoch
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=MemberTasks(
            _epochs_of(value.active_tasks, epoch), _tasks_of(value.standby_tasks), _tasks_of(value.warmup_tasks)
        ),
        pending_revocation=MemberTasks(
            _epochs_of(value.active_tasks_pending_revocation, epoch),
            _tasks_of(value.standby_tasks_pending_revocation),
            _tasks_of(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs_of(entries: Sequence[CurrentTaskIds], member_epoch: int) -> EpochTasks:
    """Return the epoch of each task; that of the member where the record has none, or not one for each."""
    tasks: dict[str, Mapping[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs
        if epochs is None or len(epochs) != len(entry.partitions):
            tasks[entry.subtopology_id] = dict.fromkeys(entry.partitions, member_epoch)
        else:
            tasks[entry.subtopology_id] = dict(zip(entry.partitions, epochs, strict=True))
    return tasks


def target_assignment_record(group_id: str, member_id: str, target: TaskAssignment) -> GroupRecord:
    return GroupRecord(
        log.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        log.StreamsGroupTargetAssignmentMemberValue(
            active_tasks=_target(target.active),
            standby_tasks=_target(target.standby),
            warmup_tasks=_target(target.warmup),
        ),
    )


def _target(tasks: Tasks) -> list[TargetTaskIds]:
    return [
        TargetTaskIds(subtopology_id=subtopology_id, partitions=sorted(partitions))
        for subtopology_id, partitions in sorted(tasks.items())
    ]


def target_of_record(value: log.StreamsGroupTargetAssignmentMemberValue) -> TaskAssignment:
    return TaskAssignment(
        active=_tasks_of(value.active_tasks),
        standby=_tasks_of(value.standby_tasks),
        warmup=_tasks_of(value.warmup_tasks),
    )


def _tasks_of(entries: Sequence[TargetTaskIds] | Sequence[CurrentTaskIds]) -> Tasks:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in entries if entry.partitions}


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: int) -> GroupRecord:
    """Return the record that completes a target assignment; ``assigned_at_ms`` by the wall clock."""
    return GroupRecord(
        log.StreamsGroupTargetAssignmentMetadataKey(group_id=group_id),
        log.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms),
    )


def epoch_record(
    group_id: str,
    epoch: int,
    *,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
) -> GroupRecord:
    """Return the record of a group's epoch, and of what it was incremented for."""
    return GroupRecord(
        log.StreamsGroupMetadataKey(group_id=group_id),
        log.StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_topology_epoch,
            last_assignment_configs=[
                log.LastAssignmentConfig(key=key, value=value) for key, value in sorted(assignment_configs.items())
            ],
        ),
    )


def topology_record(group_id: str, topology: Topology) -> GroupRecord:
    return GroupRecord(log.StreamsGroupTopologyKey(group_id=group_id), topology_record_value(topology))


def removal_records(group: StreamsGroup, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of one member, and the group's next epoch."""
    group_id = group.group_id
    return [
        GroupRecord(log.StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(log.StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
        epoch_record(
            group_id,
            group.epoch + 1,
            metadata_hash=group.metadata_hash,
            validated_topology_epoch=group.validated_topology_epoch,
            assignment_configs=group.assignment_configs,
        ),
    ]


def group_tombstones(group: StreamsGroup) -> list[GroupRecord]:
    """Return the tombstones of a group without members."""
    assert group.is_empty, f"group {group.group_id} has members"
    return [
        GroupRecord(log.StreamsGroupTargetAssignmentMetadataKey(group_id=group.group_id), None),
        GroupRecord(log.StreamsGroupMetadataKey(group_id=group.group_id), None),
        GroupRecord(log.StreamsGroupTopologyKey(group_id=group.group_id), None),
    ]
