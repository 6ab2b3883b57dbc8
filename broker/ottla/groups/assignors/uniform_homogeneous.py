"""The uniform assignment of a group whose members all subscribe to the same topics.

Each member keeps what it has up to its quota. The rest, unassigned and revoked partitions, is given to the members
below their quota, in hash order on both sides. With n partitions more than ``members * quota``, n members have a quota
of one more: those that already own so many, or else the last ones.

Source: UniformHomogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.groups.assignors.subscriptions import partition_count
from ottla.groups.assignors.types import (
    Assignment,
    MemberAssignment,
    MemberSubscription,
    PartitionAssignorError,
)
from ottla.java_hashes import buckets_of_copy, buckets_of_grown, uuid_hash
from ottla.purgatory.hash_order import in_hash_order, partitions_in_hash_order
from ottla.purgatory.steps import Steps, sorted_in_steps
from ottla.types import Uuid

_PARTITIONS_PER_STEP: Final = 1024
_TOPICS_PER_STEP: Final = 512
"""Entries of members' assignments; a member without any counts for one."""


class _Quotas:
    """Number of partitions of each member, taken in the order of the members."""

    def __init__(self, partitions: int, members: int) -> None:
        self.minimum, self._extra = divmod(partitions, members)
        self._members_left = members

    @property
    def next_maximum(self) -> int:
        """The most partitions that the next member may keep."""
        return self.minimum + (self._extra > 0)

    def take_unused(self, kept: int) -> int:
        """Take the quota of the next member, which keeps ``kept`` partitions; return how many more it gets."""
        unused = self.next_maximum - kept
        has_extra = self._extra > 0
        if unused and has_extra and self._members_left > self._extra:
            # Enough members follow that may own one more already.
            unused -= 1
            has_extra = False
        self._extra -= has_extra
        self._members_left -= 1
        return unused


def assign_homogeneous(members: list[MemberSubscription], partition_counts: Mapping[Uuid, int]) -> Steps[Assignment]:
    """Return the target assignment.

    Args:
        members: at least one, in the order in which they are served.
        partition_counts: of the subscribed topics, at least.

    Raises:
        PartitionAssignorError: a subscribed topic has no partition count.
    """
    subscribed = members[0].topic_ids
    if not subscribed:
        return {member.member_id: {} for member in members}
    unassigned = yield from _unassigned(members, partition_counts)
    quotas = _Quotas(sum(partition_counts[topic_id] for topic_id in subscribed), len(members))
    target: Assignment = {}
    unfilled: list[tuple[str, int]] = []
    topics = 0
    for member in members:
        kept, size = yield from _keep(member.assigned, subscribed, quotas.next_maximum, unassigned)
        target[member.member_id] = kept
        if unused := quotas.take_unused(size):
            unfilled.append((member.member_id, unused))
        topics += 1 + len(member.assigned)
        if topics >= _TOPICS_PER_STEP:
            topics = 0
            yield None
    yield from _assign(target, unfilled, unassigned)
    return target


def _unassigned(
    members: list[MemberSubscription], partition_counts: Mapping[Uuid, int]
) -> Steps[list[tuple[Uuid, int]]]:
    """Return the subscribed partitions that no member owns, by topics in hash order, then ascending."""
    owned: dict[Uuid, set[int]] = {topic_id: set() for topic_id in members[0].topic_ids}
    count = 0
    for member in members:
        for topic_id, partitions in member.assigned.items():
            if topic_id in owned:
                owned[topic_id].update(partitions)
            count += 1 + len(partitions)
            if count >= _PARTITIONS_PER_STEP:
                count = 0
                yield None
    # Without the sort the order among equal buckets would be that of the set, which differs from process to process.
    ascending = yield from sorted_in_steps(list(owned))
    topic_ids = yield from in_hash_order(ascending, uuid_hash, buckets_of_copy(len(owned)))
    unassigned: list[tuple[Uuid, int]] = []
    for topic_id in topic_ids:
        taken = owned.pop(topic_id)
        end = partition_count(partition_counts, topic_id)
        for start in range(0, end, _PARTITIONS_PER_STEP):
            chunk = range(start, min(start + _PARTITIONS_PER_STEP, end))
            unassigned += [(topic_id, partition) for partition in chunk if partition not in taken]
            yield None
    return unassigned


def _keep(
    assigned: MemberAssignment, subscribed: frozenset[Uuid], maximum: int, unassigned: list[tuple[Uuid, int]]
) -> Steps[tuple[MemberAssignment, int]]:
    """Return what a member keeps, and the number of partitions in it; add what it has to give up to ``unassigned``."""
    kept: MemberAssignment = assigned
    if not all(topic_id in subscribed for topic_id in assigned):
        kept = {topic_id: partitions for topic_id, partitions in assigned.items() if topic_id in subscribed}
    size = sum(map(len, kept.values()))
    if size <= maximum:
        return kept, size
    left = maximum
    rest: dict[Uuid, frozenset[int]] = {}
    # The table has entries of topics that are no longer subscribed, too.
    for topic_id in (yield from in_hash_order(list(assigned), uuid_hash, buckets_of_grown(len(assigned)))):
        if topic_id not in subscribed:
            continue
        partitions = assigned[topic_id]
        if len(partitions) > left:
            ordered = yield from partitions_in_hash_order(partitions)
            unassigned += [(topic_id, partition) for partition in ordered[left:]]
            partitions = frozenset(ordered[:left])
        left -= len(partitions)
        if partitions:
            rest[topic_id] = partitions
    return rest, maximum


def _assign(target: Assignment, unfilled: Iterable[tuple[str, int]], unassigned: list[tuple[Uuid, int]]) -> Steps[None]:
    """Give the unassigned partitions to the members in ``unfilled``, each with the number that it may get."""
    start = work = 0
    for member_id, unused in unfilled:
        end = min(start + unused, len(unassigned))
        added: dict[Uuid, list[int]] = {}
        while start < end:
            chunk = unassigned[start : min(start + _PARTITIONS_PER_STEP - work, end)]
            for topic_id, partition in chunk:
                added.setdefault(topic_id, []).append(partition)
            start += len(chunk)
            work += len(chunk)
            if work >= _PARTITIONS_PER_STEP:
                work = 0
                yield None
        if added:
            target[member_id] = yield from _with(target[member_id], added)
        work += 1
        if work >= _PARTITIONS_PER_STEP:
            work = 0
            yield None
    if start < len(unassigned):
        raise PartitionAssignorError("partitions are left over: members own partitions that do not exist")


def _with(kept: MemberAssignment, added: Mapping[Uuid, list[int]]) -> Steps[MemberAssignment]:
    """Return an assignment with more partitions."""
    result = dict(kept)
    yield None
    work = 0
    for topic_id, partitions in added.items():
        result[topic_id] = own = kept.get(topic_id, frozenset()).union(partitions)
        work += 1 + len(own)
        if work >= _PARTITIONS_PER_STEP:
            work = 0
            yield None
    return result
