"""`SimpleAssignor`: the partitions of share groups, each of them shared by several members if there are more members.

Every partition of a topic gets the same number of members, the least with which every member has a partition; the
partitions are as even among the members as that allows. Partitions stay with their members where they can. Unlike those
of consumer groups a partition may have several members, and only initialized share-partitions are assigned.

Kafka decides in the order of its hash tables, which is followed here.

Source: SimpleAssignor, SimpleHomogeneousAssignmentBuilder, SimpleHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import ceil
from typing import Final, Generic, TypeVar

from ottla.groups.assignors.subscriptions import partition_count, subscribers_by_topic
from ottla.groups.assignors.target import target_assignment
from ottla.groups.assignors.types import Assignment, GroupSpec, MemberSubscription, SubscriptionType
from ottla.java_hashes import bucket_of, buckets_of_grown, string_hash, uuid_hash
from ottla.purgatory.hash_order import in_hash_order, partitions_in_hash_order
from ottla.purgatory.steps import Steps
from ottla.types import Uuid

KeyT = TypeVar("KeyT", bound=Hashable)

_ENTRIES_PER_STEP: Final = 128


def sized_buckets(size: int) -> int:
    """Return the number of buckets of a table that was created for ``size`` entries by `AssignorHelpers`."""
    wanted = int((size + 1) / 0.75 + 1)
    buckets = 1
    while buckets < wanted:
        buckets *= 2
    return buckets


def desired_counts(members: int, partitions: int) -> tuple[int, list[int]]:
    """Return how many members each partition is to have, and how many partitions each member."""
    sharing = 0 if partitions == 0 else -(-members // partitions)
    each = sharing * partitions / members
    return sharing, [ceil(each * (number + 1)) - ceil(each * number) for number in range(members)]


class _Table(Generic[KeyT]):
    """Sets of keys' values in the order of Java's hash tables; ``buckets`` is that of the outer one."""

    def __init__(self, buckets: int, hash_of: Callable[[KeyT], int]) -> None:
        self.sets: dict[KeyT, dict[int, None]] = {}
        self._buckets = buckets
        self._hash_of = hash_of

    def add(self, key: KeyT, value: int) -> None:
        self.sets.setdefault(key, {})[value] = None

    def in_order(self) -> Steps[list[tuple[KeyT, dict[int, None]]]]:
        buckets = self._buckets
        while len(self.sets) > buckets * 3 // 4:
            buckets *= 2
        # HashMap.computeIfAbsent, which Kafka uses for it, puts new entries at the head of a bucket.
        keys = yield from in_hash_order(list(reversed(self.sets)), self._hash_of, buckets)
        return [(key, self.sets[key]) for key in keys]


def _as_set(values: Mapping[KeyT, None], hash_of: Callable[[KeyT], int], most: int) -> list[KeyT]:
    """Return ``values`` in the order of a ``HashSet`` that has had ``most`` entries."""
    buckets = buckets_of_grown(most)
    return sorted(values, key=lambda value: bucket_of(hash_of(value), buckets))


class _Assignment:
    """The assignment of one group, or of one topic of it, while it is computed.

    Attributes:
        desired: partitions by member; members are indices.
        members_of: the members of each partition.
        partitions_of: the partitions of each member, as Kafka counts them.
        unfilled: members that have too few partitions.
    """

    def __init__(self, sharing: int, desired: Mapping[int, int], partitions: int) -> None:
        self.sharing = sharing
        self.desired = desired
        self.members_of: _Table[tuple[Uuid, int]] = _Table(sized_buckets(partitions), self.hash_of)
        self.partitions_of: defaultdict[int, dict[tuple[Uuid, int], None]] = defaultdict(dict)
        self.unfilled: dict[int, None] = {}

    hash_of: Callable[[tuple[Uuid, int]], int] = staticmethod(
        lambda partition: (31 * uuid_hash(partition[0]) + partition[1]) & 0xFFFFFFFF
    )

    def keep(self, member: int, partition: tuple[Uuid, int]) -> None:
        self.members_of.add(partition, member)
        self.partitions_of[member][partition] = None

    def revoke_from_overfilled(self, result: Sequence[dict[Uuid, set[int]]]) -> Steps[None]:
        """Take from the members what they have too much."""
        for member in sorted(self.partitions_of):
            own = self.partitions_of[member]
            excess = len(own) - self.desired.get(member, 0)
            if excess <= 0:
                continue
            for partition in _as_set(own, self.hash_of, len(own))[:excess]:
                del own[partition]
                del self.members_of.sets[partition][member]
                result[member][partition[0]].discard(partition[1])
            yield None

    def revoke_overshared(self, result: Sequence[dict[Uuid, set[int]]], most: Mapping[object, int]) -> Steps[None]:
        """Take partitions from members where they have too many; ``most`` members were in the set of each."""
        for number, (partition, members) in enumerate((yield from self.members_of.in_order()), 1):
            excess = len(members) - self.sharing
            if excess > 0:
                for member in _as_set(members, int, most[partition])[:excess]:
                    del members[member]
                    del self.partitions_of[member][partition]
                    result[member][partition[0]].discard(partition[1])
                    self.unfilled[member] = None
            if number % _ENTRIES_PER_STEP == 0:
                yield None

    def assign_remaining(self, result: Sequence[dict[Uuid, set[int]]]) -> Steps[None]:
        """Give the partitions that have too few members to members that have too few partitions, in turn."""
        waiting = sorted(self.unfilled)
        position = 0
        was_assigned = False
        for number, (partition, members) in enumerate((yield from self.members_of.in_order()), 1):
            missing = self.sharing - len(members)
            while missing > 0:
                if position == len(waiting):
                    if not was_assigned:
                        break
                    position, was_assigned = 0, False
                    if not waiting:
                        break
                member = waiting[position]
                position += 1
                if member in members:
                    continue
                result[member].setdefault(partition[0], set()).add(partition[1])
                own = self.partitions_of[member]
                own[partition] = None
                missing -= 1
                was_assigned = True
                if len(own) >= self.desired[member]:
                    position -= 1
                    del waiting[position]
            if not waiting:
                break
            if number % _ENTRIES_PER_STEP == 0:
                yield None


class SimpleAssignor:
    """See the module; it has no state."""

    name: Final = "simple"

    def assign(self, spec: GroupSpec) -> Steps[Assignment]:
        """See `Assignor.assign`."""
        if not spec.members:
            return {}
        buckets = buckets_of_grown(len(spec.members))
        members = yield from in_hash_order(spec.members, lambda member: string_hash(member.member_id), buckets)
        result: list[dict[Uuid, set[int]]] = [
            {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()} for member in members
        ]
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            if not members[0].topic_ids:
                return {}
            yield from self._assign_homogeneous(spec, members, result)
        else:
            if not any(member.topic_ids for member in members):
                return {}
            subscribers = yield from subscribers_by_topic(members)
            for topic_id, indices in subscribers.items():
                yield from self._assign_topic(spec, topic_id, indices, members, result)
        return (yield from target_assignment(members, [_without_empty(topics) for topics in result]))

    def _assign_homogeneous(
        self, spec: GroupSpec, members: Sequence[MemberSubscription], result: list[dict[Uuid, set[int]]]
    ) -> Steps[None]:
        topic_ids = members[0].topic_ids
        partitions = yield from _assignable(spec, sorted(topic_ids))
        sharing, desired = desired_counts(len(members), len(partitions))
        state = _Assignment(sharing, dict(enumerate(desired)), len(partitions))
        for index, member in enumerate(members):
            order = yield from in_hash_order(list(member.assigned), uuid_hash, buckets_of_grown(len(member.assigned)))
            for topic_id in order:
                if topic_id not in topic_ids:
                    del result[index][topic_id]
                    continue
                for partition in (yield from partitions_in_hash_order(member.assigned[topic_id])):
                    state.keep(index, (topic_id, partition))
            if len(state.partitions_of[index]) < desired[index]:
                state.unfilled[index] = None
        yield from _balance(state, partitions, result)

    def _assign_topic(
        self,
        spec: GroupSpec,
        topic_id: Uuid,
        subscribers: Sequence[int],
        members: Sequence[MemberSubscription],
        result: list[dict[Uuid, set[int]]],
    ) -> Steps[None]:
        partitions = yield from _assignable(spec, [topic_id])
        sharing, desired = desired_counts(len(subscribers), len(partitions))
        state = _TopicAssignment(sharing, dict(zip(subscribers, desired, strict=True)), len(partitions))
        for number, (index, member) in enumerate(enumerate(members), 1):
            for partition in (yield from partitions_in_hash_order(member.assigned.get(topic_id, frozenset()))):
                state.keep(index, (topic_id, partition))
            if number % _ENTRIES_PER_STEP == 0:
                yield None
        yield from _balance(state, partitions, result)


class _TopicAssignment(_Assignment):
    """The assignment of one topic, whose partitions Kafka hashes by their numbers alone."""

    hash_of = staticmethod(lambda partition: partition[1])


def _balance(
    state: _Assignment, partitions: Sequence[tuple[Uuid, int]], result: list[dict[Uuid, set[int]]]
) -> Steps[None]:
    most: dict[object, int] = {partition: len(members) for partition, members in state.members_of.sets.items()}
    yield from state.revoke_from_overfilled(result)
    yield from state.revoke_overshared(result, most)
    for partition in partitions:
        state.members_of.sets.setdefault(partition, {})
    if isinstance(state, _TopicAssignment):
        state.unfilled = dict.fromkeys(
            member for member, count in state.desired.items() if len(state.partitions_of[member]) < count
        )
    yield from state.assign_remaining(result)


def _assignable(spec: GroupSpec, topic_ids: Sequence[Uuid]) -> Steps[list[tuple[Uuid, int]]]:
    """Return the partitions of the topics that may be assigned."""
    found: list[tuple[Uuid, int]] = []
    for topic_id in topic_ids:
        numbers = range(partition_count(spec.partition_counts, topic_id))
        if spec.assignable is None:
            found += [(topic_id, number) for number in numbers]
        else:
            allowed = spec.assignable.get(topic_id, frozenset())
            found += [(topic_id, number) for number in numbers if number in allowed]
        yield None
    return found


def _without_empty(topics: dict[Uuid, set[int]]) -> dict[Uuid, set[int]]:
    return {topic_id: partitions for topic_id, partitions in topics.items() if partitions}
