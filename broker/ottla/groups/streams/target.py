"""The target assignment of a group: computed by the sticky assignor when the group's epoch is newer.

A large one is written in several batches (`modern.target`). Until the last one some members have a new target and the
old epoch; no task gets two owners by that, for `reconciliation` gives only what is free.

Source: GroupMetadataManager.maybeUpdateStreamsTargetAssignment, computeDelayedTargetAssignment,
TargetAssignmentBuilder (package streams) of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from typing import Final

from ottla.coordinator.result import CoordinatorResult
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import (
    IN_PLACE_SIZE_MAX,
    TOPICS_PER_STEP,
    Target,
    is_due,
)
from ottla.groups.modern.jobs import GroupJob
from ottla.groups.modern.target import TargetAssignmentBuilder
from ottla.groups.result import GroupResult
from ottla.groups.streams.assignors.sticky_assignor import StickyTaskAssignor
from ottla.groups.streams.assignors.types import AssignmentMember, GroupSpec, task_topology
from ottla.groups.streams.group import StreamsGroup
from ottla.groups.streams.groups import ASSIGNMENT_JOB, StreamsGroups
from ottla.groups.streams.member import StreamsMember
from ottla.groups.streams.records import target_assignment_record, target_epoch_record
from ottla.groups.streams.tasks import NO_TASKS, TaskAssignment
from ottla.groups.streams.topics.configured import ConfiguredTopology, StreamsStatus
from ottla.purgatory.steps import Steps
from ottla.wire.messages.streams_group_heartbeat import Status

ASSIGNOR: Final = StickyTaskAssignor()
_BUILDER: Final[TargetAssignmentBuilder[TaskAssignment]] = TargetAssignmentBuilder(
    target_assignment_record, target_epoch_record
)
STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The name of the assignor's only setting, in the records of groups."""


def assignment_configs(groups: StreamsGroups, group_id: str) -> Mapping[str, str]:
    """Return the settings of a group's assignor, as they are stored."""
    return {STANDBY_REPLICAS: str(groups.settings.standby_replicas(group_id))}


def target_for(
    groups: StreamsGroups,
    group: StreamsGroup,
    epoch: int,
    new: StreamsMember,
    configured: ConfiguredTopology,
    records: list[GroupRecord],
    statuses: list[Status],
) -> Target[TaskAssignment]:
    """Return the target of ``new``, which this heartbeat adds or replaces; add the records of a new assignment.

    ``epoch`` is the group's, which this heartbeat may have incremented. ``statuses`` gets the reason if the assignment
    is delayed.
    """
    group_id = group.group_id
    if groups.is_delayed(group_id):
        statuses.append(_delayed("initial rebalance delay"))
        return Target(group.assignment_epoch, NO_TASKS)
    last = Target(group.assignment_epoch, group.target.get(new.member_id, NO_TASKS))
    if group.assignment_epoch >= epoch or groups.jobs.is_running(ASSIGNMENT_JOB, group_id):
        return last
    if not is_due(groups.clock, group.assigned_at_ms, groups.settings.assignment_interval_ms(group_id)):
        statuses.append(_delayed("assignment interval"))
        return last
    if _is_large(len(group.members) + (new.member_id not in group.members), configured):
        # The job reads the members from the group, which has this one when the records are replayed.
        groups.jobs.start(ASSIGNMENT_JOB, group_id, _assign_in_slices(groups, group_id, configured))
        return last
    members = {**group.members, new.member_id: new}
    computation = _compute(group, members, configured, groups.settings.standby_replicas(group_id))
    computed = _BUILDER.build_in_place(group, epoch, ASSIGNOR.name, computation, groups.clock, records)
    return Target(epoch, computed[new.member_id])


def assign_delayed(groups: StreamsGroups, group_id: str, configured: ConfiguredTopology) -> GroupResult | None:
    """Return the first assignment of a group, after the delay in which more members could join.

    ``configured``: the topology as the first member found it, if no later heartbeat has configured it again.
    """
    group = groups.groups.get(group_id)
    if group is None or group.is_empty or group.epoch <= group.assignment_epoch:
        return None
    configured = group.configured or configured
    if _is_large(len(group.members), configured):
        groups.jobs.start(ASSIGNMENT_JOB, group_id, _assign_in_slices(groups, group_id, configured))
        return None
    records: list[GroupRecord] = []
    computation = _compute(group, group.members, configured, _standby_replicas(group))
    _BUILDER.build_in_place(group, group.epoch, ASSIGNOR.name, computation, groups.clock, records)
    return CoordinatorResult(records=records, response=None)


def _delayed(reason: str) -> Status:
    return Status(
        status_code=int(StreamsStatus.ASSIGNMENT_DELAYED),
        status_detail=f"Assignment delayed due to the configured {reason}.",
    )


def _is_large(members: int, configured: ConfiguredTopology) -> bool:
    tasks = sum(each.task_count for each in (configured.subtopologies or {}).values())
    return members + tasks > IN_PLACE_SIZE_MAX


def _compute(
    group: StreamsGroup, members: Mapping[str, StreamsMember], configured: ConfiguredTopology, standbys: int
) -> Steps[dict[str, TaskAssignment]]:
    """Return the new target of each of ``members``; without tasks while topics of the topology are missing."""
    if not configured.is_ready:
        return dict.fromkeys(members, NO_TASKS)
    specs: dict[str, AssignmentMember] = {}
    entries = 0
    for member_id, member in members.items():
        last = group.target.get(member_id, NO_TASKS)
        specs[member_id] = AssignmentMember(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            active=last.active,
            standby=last.standby,
            warmup=last.warmup,
            process_id=member.process_id,
            client_tags=member.client_tags,
        )
        entries += 1 + len(last)
        if entries >= TOPICS_PER_STEP:
            entries = 0
            yield None
    spec = GroupSpec(members=specs, standby_replicas=standbys)
    computed = yield from ASSIGNOR.assign(spec, task_topology(configured))
    return {member_id: computed.get(member_id, NO_TASKS) for member_id in members}


def _standby_replicas(group: StreamsGroup) -> int:
    """Return the number of standby tasks that the group's epoch was incremented with."""
    return int(group.assignment_configs.get(STANDBY_REPLICAS, "0"))


def _assign_in_slices(groups: StreamsGroups, group_id: str, configured: ConfiguredTopology) -> GroupJob:
    """Compute and write the target of a group that is too large for one heartbeat.

    ``configured``: the topology that the job was started with, if no later heartbeat has configured it again.
    """
    # All is that of the epoch which this assignment completes: heartbeats may have changed it since the job's start.
    group = groups.groups.get(group_id)
    if group is None:
        return
    computation = _compute(group, dict(group.members), group.configured or configured, _standby_replicas(group))
    yield from _BUILDER.build_in_slices(group, ASSIGNOR.name, computation, groups.clock)
