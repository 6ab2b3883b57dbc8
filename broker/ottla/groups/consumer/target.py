"""The target assignment of a group: computed by an assignor when the group's epoch is newer.

A large one is written in several batches (`modern.target`). Until the last one some members have a new target and the
old epoch; no partition gets two owners by that, for `reconciliation` gives only what is free, and whatever a member
took of it is settled when it moves to the new epoch.

Source: GroupMetadataManager.maybeUpdateTargetAssignment, TargetAssignmentBuilder of Apache Kafka 4.3; KIP-1263.
"""

from collections.abc import Collection, Mapping
from typing import Final

from ottla.groups.assignors.range_assignor import RangeAssignor
from ottla.groups.assignors.types import Assignor, GroupSpec, MemberAssignment, MemberSubscription, SubscriptionType
from ottla.groups.assignors.uniform_assignor import UniformAssignor
from ottla.groups.consumer.group import ConsumerGroup
from ottla.groups.consumer.groups import ASSIGNMENT_JOB, ConsumerGroups
from ottla.groups.consumer.member import ConsumerMember
from ottla.groups.consumer.records import target_assignment_record, target_epoch_record
from ottla.groups.log import GroupRecord
from ottla.groups.modern.assignment import TOPICS_PER_STEP, Target, is_due, is_large
from ottla.groups.modern.jobs import GroupJob
from ottla.groups.modern.target import TargetAssignmentBuilder
from ottla.purgatory.steps import Steps
from ottla.types import Uuid

ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (UniformAssignor(), RangeAssignor())}
_BUILDER: Final[TargetAssignmentBuilder[MemberAssignment]] = TargetAssignmentBuilder(
    target_assignment_record, target_epoch_record
)


def target_for(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    epoch: int,
    old: ConsumerMember,
    new: ConsumerMember,
    records: list[GroupRecord],
) -> Target[MemberAssignment]:
    """Return the target of ``new``, which replaces ``old`` in this heartbeat; add the records of a new assignment.

    ``epoch`` is the group's, which this heartbeat may have incremented.
    """
    last = Target(group.assignment_epoch, group.target_of(new))
    is_computing = groups.jobs.is_running(ASSIGNMENT_JOB, group.group_id)
    if group.assignment_epoch >= epoch or is_computing or not _is_due(groups, group):
        return last
    previous_id = group.static_members.get(new.instance_id) if new.instance_id is not None else None
    others = len(group.members) - (new.member_id in group.members or previous_id is not None)
    topics = group.subscriptions.topics_after([old], new)
    if is_large(groups.topics, others + 1, topics):
        # The job reads the members from the group, which has this one when the records are replayed.
        groups.jobs.start(ASSIGNMENT_JOB, group.group_id, _assign_in_slices(groups, group.group_id))
        return last
    members = {each.member_id: each for each in group.members.values() if each.member_id != previous_id}
    members[new.member_id] = new
    assignor = group.preferred_assignor(groups.settings.config.consumer_assignors, old, new)
    computation = _compute(groups, group, assignor, members)
    computed = _BUILDER.build_in_place(group, epoch, assignor, computation, groups.clock, records)
    return Target(epoch, computed[new.member_id])


def _is_due(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    return is_due(groups.clock, group.assigned_at_ms, groups.settings.assignment_interval_ms(group.group_id))


def _compute(
    groups: ConsumerGroups, group: ConsumerGroup, assignor: str, members: Mapping[str, ConsumerMember]
) -> Steps[dict[str, MemberAssignment]]:
    """Return the new target of each of ``members``."""
    subscriptions: list[MemberSubscription] = []
    counts: dict[Uuid, int] = {}
    known_ids: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}
    taken: dict[Uuid, set[int]] = {}
    topics = 0
    for member in members.values():
        topic_ids = _topic_ids(groups, group, member, known_ids)
        for topic_id in topic_ids - counts.keys():
            counts[topic_id] = groups.topics.partition_count_of(topic_id)
        subscriptions.append(
            MemberSubscription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                topic_ids=topic_ids,
                assigned=_take(group.target_of(member), taken),
            )
        )
        topics += 1 + len(subscriptions[-1].assigned)
        if topics >= TOPICS_PER_STEP:
            topics = 0
            yield None
    spec = GroupSpec(members=subscriptions, subscription_type=_type_of(known_ids), partition_counts=counts)
    assigned = yield from ASSIGNORS[assignor].assign(spec)
    return dict(assigned)


def _take(target: MemberAssignment, taken: dict[Uuid, set[int]]) -> MemberAssignment:
    """Return the part of a member's last target that no member before it has, and add it to ``taken``.

    Two members have the same partition when only some batches of the last target were written.
    """
    own: dict[Uuid, frozenset[int]] = {}
    for topic_id, partitions in target.items():
        others = taken.setdefault(topic_id, set())
        if left := partitions - others:
            own[topic_id] = left
        others |= left
    return target if own == target else own


def _type_of(subscriptions: Collection[tuple[tuple[str, ...], str]]) -> SubscriptionType:
    """Return whether all members have the same names, or the same expression and no names."""
    # Source: ConsumerGroup.subscriptionType.
    is_same = len(subscriptions) <= 1 and not any(names and regex for names, regex in subscriptions)
    return SubscriptionType.HOMOGENEOUS if is_same else SubscriptionType.HETEROGENEOUS


def _topic_ids(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    member: ConsumerMember,
    known_ids: dict[tuple[tuple[str, ...], str], frozenset[Uuid]],
) -> frozenset[Uuid]:
    """Return the topics of a member; most members have the same, which are looked up once."""
    subscription = (member.subscribed_topic_names, member.subscribed_topic_regex)
    topic_ids = known_ids.get(subscription)
    if topic_ids is None:
        topic_ids = known_ids[subscription] = groups.topics.ids_of(group.subscriptions.names_of(member))
    return topic_ids


def _assign_in_slices(groups: ConsumerGroups, group_id: str) -> GroupJob:
    """Compute and write the target of a group that is too large for one heartbeat."""
    group = groups.groups.get(group_id)
    if group is None:
        return
    assignor = group.preferred_assignor(groups.settings.config.consumer_assignors)
    computation = _compute(groups, group, assignor, dict(group.members))
    yield from _BUILDER.build_in_slices(group, assignor, computation, groups.clock)
