"""The target assignment of a share group: computed by `simple` when the group's epoch is newer.

Source: GroupMetadataManager.maybeUpdateTargetAssignment, TargetAssignmentBuilder of Apache Kafka 4.3.
"""

from collections.abc import Mapping
from typing import Final

from ottla.groups.assignors.simple_assignor import SimpleAssignor
from ottla.groups.assignors.types import (
    NO_ASSIGNMENT,
    Assignor,
    GroupSpec,
    MemberAssignment,
    MemberSubscription,
    SubscriptionType,
)
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import TOPICS_PER_STEP, Target, is_due, is_large
from ottla.groups.modern.jobs import GroupJob
from ottla.groups.modern.target import TargetAssignmentBuilder
from ottla.groups.share.group import ShareGroup
from ottla.groups.share.groups import ASSIGNMENT_JOB, ShareGroups
from ottla.groups.share.member import ShareMember
from ottla.groups.share.records import target_assignment_record, target_epoch_record
from ottla.purgatory.steps import Steps
from ottla.types import Uuid

ASSIGNOR: Final[Assignor] = SimpleAssignor()
_BUILDER: Final[TargetAssignmentBuilder[MemberAssignment]] = TargetAssignmentBuilder(
    target_assignment_record, target_epoch_record
)


def target_for(
    groups: ShareGroups,
    group: ShareGroup,
    epoch: int,
    old: ShareMember,
    new: ShareMember,
    records: list[GroupRecord],
) -> Target[MemberAssignment]:
    """Return the target of ``new``, which replaces ``old`` in this heartbeat; add the records of a new assignment.

    ``epoch`` is the group's, which this heartbeat may have incremented.
    """
    last = Target(group.assignment_epoch, group.target.get(new.member_id, NO_ASSIGNMENT))
    interval_ms = groups.settings.assignment_interval_ms(group.group_id)
    is_computing = groups.jobs.is_running(ASSIGNMENT_JOB, group.group_id)
    if group.assignment_epoch >= epoch or is_computing or not is_due(groups.clock, group.assigned_at_ms, interval_ms):
        return last
    members_after = len(group.members) + (new.member_id not in group.members)
    if is_large(groups.topics, members_after, group.subscriptions.topics_after([old], new)):
        # The job reads the members from the group, which has this one when the records are replayed.
        groups.jobs.start(ASSIGNMENT_JOB, group.group_id, _assign_in_slices(groups, group.group_id))
        return last
    members = {**group.members, new.member_id: new}
    computation = _compute(groups, group, members)
    computed = _BUILDER.build_in_place(group, epoch, ASSIGNOR.name, computation, groups.clock, records)
    return Target(epoch, computed[new.member_id])


def _compute(
    groups: ShareGroups, group: ShareGroup, members: Mapping[str, ShareMember]
) -> Steps[dict[str, MemberAssignment]]:
    """Return the new target of each of ``members``."""
    subscriptions: list[MemberSubscription] = []
    counts: dict[Uuid, int] = {}
    known_ids: dict[tuple[str, ...], frozenset[Uuid]] = {}
    topics = 0
    for member in members.values():
        names = member.subscribed_topic_names
        topic_ids = known_ids.get(names)
        if topic_ids is None:
            topic_ids = known_ids[names] = groups.topics.ids_of(names)
        for topic_id in topic_ids - counts.keys():
            counts[topic_id] = groups.topics.partition_count_of(topic_id)
        assigned = group.target.get(member.member_id, NO_ASSIGNMENT)
        subscriptions.append(
            MemberSubscription(member_id=member.member_id, instance_id=None, topic_ids=topic_ids, assigned=assigned)
        )
        topics += 1 + len(assigned)
        if topics >= TOPICS_PER_STEP:
            topics = 0
            yield None
    is_same = len(known_ids) <= 1
    state = group.state_partitions
    spec = GroupSpec(
        members=subscriptions,
        subscription_type=SubscriptionType.HOMOGENEOUS if is_same else SubscriptionType.HETEROGENEOUS,
        partition_counts=counts,
        assignable={}
        if state is None
        else {topic_id: topic.partitions for topic_id, topic in state.initialized.items()},
    )
    computed = yield from ASSIGNOR.assign(spec)
    return {member_id: computed.get(member_id, NO_ASSIGNMENT) for member_id in members}


def _assign_in_slices(groups: ShareGroups, group_id: str) -> GroupJob:
    """Compute and write the target of a group that is too large for one heartbeat."""
    group = groups.groups.get(group_id)
    if group is None:
        return
    computation = _compute(groups, group, dict(group.members))
    yield from _BUILDER.build_in_slices(group, ASSIGNOR.name, computation, groups.clock)
