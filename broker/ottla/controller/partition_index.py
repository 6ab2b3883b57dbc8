"""`PartitionIndex`: which partitions an event concerns, found without looking at the others.

Kept beside the controller's image: whoever changes the image tells the index, partition by partition.

Source: BrokersToIsrs, BrokersToElrs and imbalancedPartitions of Apache Kafka's controller.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from ottla.metadata.topics import PartitionRegistration
from ottla.types import NodeId, Uuid


class TopicIdPartition(NamedTuple):
    """One partition by its topic's id."""

    topic_id: Uuid
    partition: int


PartitionSet: TypeAlias = dict[TopicIdPartition, None]
"""Ordered by insertion, so that two controllers that replayed the same log see the same order."""

NOWHERE: PartitionSet = {}


class PartitionIndex:
    """See the module.

    Attributes:
        in_sync: by broker, the partitions whose in-sync set has it.
        eligible: by broker, the partitions whose eligible leader replicas have it.
        led: by broker, the partitions that it leads; those of `NO_LEADER` are offline.
        imbalanced: led by another than their first replica, or by nobody.
        reassigning: with replicas on the way in or out.
        under_replicated: with fewer in sync than replicas.
        replica_counts: by broker and log directory, how many replicas are there.
        partition_count: of every topic.
    """

    def __init__(self) -> None:
        self.in_sync: dict[NodeId, PartitionSet] = {}
        self.eligible: dict[NodeId, PartitionSet] = {}
        self.led: dict[NodeId, PartitionSet] = {}
        self.imbalanced: PartitionSet = {}
        self.reassigning: PartitionSet = {}
        self.under_replicated: PartitionSet = {}
        self.replica_counts: dict[tuple[NodeId, Uuid], int] = {}
        self.partition_count = 0

    def update(
        self, place: TopicIdPartition, before: PartitionRegistration | None, after: PartitionRegistration | None
    ) -> None:
        """Note that a partition is now ``after``; None where there was or is none."""
        self.partition_count += (after is not None) - (before is not None)
        old_isr, new_isr = _members(before, "isr"), _members(after, "isr")
        if old_isr != new_isr:
            _move(self.in_sync, place, old_isr, new_isr)
        old_elr, new_elr = _members(before, "elr"), _members(after, "elr")
        if old_elr != new_elr:
            _move(self.eligible, place, old_elr, new_elr)
        old_leader = () if before is None else (before.leader,)
        new_leader = () if after is None else (after.leader,)
        if old_leader != new_leader:
            _move(self.led, place, old_leader, new_leader)
        _mark(self.imbalanced, place, after is not None and after.leader != after.preferred_replica)
        _mark(self.reassigning, place, after is not None and after.is_reassigning)
        _mark(self.under_replicated, place, after is not None and len(after.isr) < len(after.replicas))
        self._count_replicas(before, after)

    def _count_replicas(self, before: PartitionRegistration | None, after: PartitionRegistration | None) -> None:
        if before is not None and after is not None and _homes(before) == _homes(after):
            return
        counts = self.replica_counts
        for registration, step in ((after, 1), (before, -1)):
            if registration is None:
                continue
            for where in zip(*_homes(registration), strict=True):
                counts[where] = counts.get(where, 0) + step
                if not counts[where]:
                    del counts[where]


def _homes(registration: PartitionRegistration) -> tuple[tuple[NodeId, ...], tuple[Uuid, ...]]:
    return registration.replicas, registration.directories


def _members(registration: PartitionRegistration | None, which: str) -> tuple[NodeId, ...]:
    members: tuple[NodeId, ...] = () if registration is None else getattr(registration, which)
    return members


def _move(
    index: dict[NodeId, PartitionSet], place: TopicIdPartition, before: Iterable[NodeId], after: Iterable[NodeId]
) -> None:
    for broker_id in before:
        if broker_id not in after:
            remaining = index[broker_id]
            remaining.pop(place, None)
            if not remaining:
                del index[broker_id]
    for broker_id in after:
        index.setdefault(broker_id, {})[place] = None


def _mark(partitions: PartitionSet, place: TopicIdPartition, belongs: bool) -> None:
    if belongs:
        partitions[place] = None
    else:
        partitions.pop(place, None)
