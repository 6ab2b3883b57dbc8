"""The uniform assignment of a group whose members subscribe to different topics.

1. Each member keeps its partitions of the topics that it still subscribes to.
2. Topics with many partitions per subscriber come first: their unassigned partitions go to the least loaded
   subscribers.
3. Topic by topic, partitions move from the most to the least loaded subscribers, until nothing moves any more or a
   limit of rounds is reached. With overlapping subscriptions the result is almost balanced, not always balanced.

A member's load is the number of all its partitions, of whatever topic.

Source: UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

import struct
from collections.abc import Mapping
from heapq import nsmallest
from typing import Final

from ottla.groups.assignors.load_balancer import LoadBalancer, sorted_by_load
from ottla.groups.assignors.subscriptions import partition_count, subscribers_by_topic
from ottla.groups.assignors.target import target_assignment
from ottla.groups.assignors.types import (
    Assignment,
    MemberSubscription,
    PartitionAssignorError,
)
from ottla.purgatory.steps import Steps, clear_in_steps, sorted_in_steps
from ottla.types import Uuid, format_uuid

_ROUNDS_MAX: Final = 16
"""Rounds over all topics in the last phase; Kafka's limit, which is part of the result."""
_ENTRIES_PER_STEP: Final = 512
_LISTS_PER_STEP: Final = 64
_NO_MEMBER: Final = -1


def assign_heterogeneous(members: list[MemberSubscription], partition_counts: Mapping[Uuid, int]) -> Steps[Assignment]:
    """Return the target assignment.

    Args:
        members: in the order that breaks ties between equal loads.
        partition_counts: of the subscribed topics, at least.

    Raises:
        PartitionAssignorError: a subscribed topic has no partition count, or a member owns a partition above it.
    """
    group = _Group(members, partition_counts)
    yield from group.note_subscribers()
    yield from group.keep_assigned()
    topic_ids = yield from sorted_in_steps(list(group.subscribers), key=group.topic_order)
    yield from group.assign_unassigned(topic_ids)
    yield from group.balance([topic_id for topic_id in topic_ids if len(group.subscribers[topic_id]) > 1])
    return (yield from group.collect())


class _Group:
    """The assignment in progress; members are indices in ``members``.

    Attributes:
        subscribers: the members of each topic, ascending.
        owners: the member of each partition, or ``_NO_MEMBER``, by topic.
        loads: the number of partitions of each member.
    """

    def __init__(self, members: list[MemberSubscription], partition_counts: Mapping[Uuid, int]) -> None:
        self.members = members
        self.subscribers: dict[Uuid, list[int]] = {}
        self.owners: dict[Uuid, list[int]] = {}
        self.loads = [0] * len(members)
        self._partition_counts = partition_counts

    def note_subscribers(self) -> Steps[None]:
        self.subscribers = yield from subscribers_by_topic(self.members)
        for topic_id in self.subscribers:
            self.owners[topic_id] = [_NO_MEMBER] * partition_count(self._partition_counts, topic_id)
            if len(self.owners) % _ENTRIES_PER_STEP == 0:
                yield None

    def keep_assigned(self) -> Steps[None]:
        kept = 0
        for index, member in enumerate(self.members):
            for topic_id, partitions in member.assigned.items():
                if topic_id not in member.topic_ids:
                    continue
                owners = self.owners[topic_id]
                if partitions and max(partitions) >= len(owners):
                    raise PartitionAssignorError(
                        f"a partition of topic {format_uuid(topic_id)} is assigned and unknown"
                    )
                for partition in partitions:
                    owners[partition] = index
                self.loads[index] += len(partitions)
                kept += 1 + len(partitions)
                if kept >= _ENTRIES_PER_STEP:
                    kept = 0
                    yield None

    def topic_order(self, topic_id: Uuid) -> tuple[float, int, tuple[int, ...]]:
        """Return the key by which topics are served: most partitions per subscriber first."""
        subscribers = len(self.subscribers[topic_id])
        # Kafka compares ids as two signed 64-bit integers.
        return -(len(self.owners[topic_id]) / subscribers), subscribers, struct.unpack(">qq", topic_id)

    def assign_unassigned(self, topic_ids: list[Uuid]) -> Steps[None]:
        for topic_id in topic_ids:
            owners = self.owners[topic_id]
            partitions = [partition for partition, owner in enumerate(owners) if owner == _NO_MEMBER]
            yield None
            if not partitions:
                continue
            balancer = LoadBalancer(self.loads, (yield from self._least_loaded(topic_id, len(partitions))))
            for number, partition in enumerate(partitions, 1):
                index = balancer.next_least_loaded()
                owners[partition] = index
                self.loads[index] += 1
                if number % _ENTRIES_PER_STEP == 0:
                    yield None

    def _least_loaded(self, topic_id: Uuid, count: int) -> Steps[list[int]]:
        """Return at least the ``count`` least loaded subscribers of a topic in order, or all of them."""
        subscribers = self.subscribers[topic_id]
        if count * 8 < len(subscribers):
            # A sort of all subscribers takes several times as long.
            yield None
            loads = self.loads
            return nsmallest(count, subscribers, key=lambda index: (loads[index], index))
        return (yield from sorted_by_load(self.loads, subscribers))

    def balance(self, topic_ids: list[Uuid]) -> Steps[None]:
        """Move partitions until a round over the topics moves none, or for ``_ROUNDS_MAX`` rounds."""
        last_moved: Uuid | None = None
        for _ in range(_ROUNDS_MAX):
            for topic_id in topic_ids:
                if topic_id == last_moved:
                    return
                if (yield from self._balance_topic(topic_id)) or last_moved is None:
                    last_moved = topic_id

    def _balance_topic(self, topic_id: Uuid) -> Steps[bool]:
        """Move partitions of one topic from its most to its least loaded subscribers; return whether any moved."""
        loads, subscribers = self.loads, self.subscribers[topic_id]
        topic_loads = [loads[index] for index in subscribers]
        yield None
        if max(topic_loads) - min(topic_loads) <= 1:
            return False
        balancer = LoadBalancer(loads, (yield from sorted_by_load(loads, subscribers)))
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
            if partition % _ENTRIES_PER_STEP == 0:
                yield None
        moved = 0
        while not balancer.is_balanced:
            giver = balancer.next_most_loaded()
            while giver is not None and not owned.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.next_most_loaded()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced:
                break
            owners[partition] = taker
            loads[giver] -= 1
            loads[taker] += 1
            moved += 1
            if moved % _ENTRIES_PER_STEP == 0:
                yield None
        return moved > 0

    def collect(self) -> Steps[Assignment]:
        """Return the assignment by member id, derived from the owners."""
        yield from clear_in_steps(self.subscribers, _LISTS_PER_STEP)
        assigned: list[dict[Uuid, list[int]]] = [{} for _ in self.members]
        count = 0
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                assigned[owner].setdefault(topic_id, []).append(partition)
                count += 1
                if count % _ENTRIES_PER_STEP == 0:
                    yield None
        return (yield from target_assignment(self.members, assigned))
