"""`PartitionIndex`: the partitions that an event concerns, found without a scan of all.

Kept next to the controller's image: every change of the image updates the index, partition by partition.

Source: BrokersToIsrs, BrokersToElrs and imbalancedPartitions of Apache Kafka's controller.
"""

from collections.abc import Iterable
from typing import TypeAlias

from ottla.metadata.topics import PartitionRegistration
from ottla.types import NodeId, TopicIdPartition, Uuid

PartitionSet: TypeAlias = dict[TopicIdPartition, None]
"""Ordered by insertion, so that two controllers that replayed the same log see the same order."""

NOWHERE: PartitionSet = {}


class PartitionIndex:
    """See the module.

    Attributes:
        in_sync: by broker, the partitions whose in-sync set has it.
        eligible: by broker, the partitions whose eligible leader replicas have it.
        led: by broker, the partitions that it leads; those of `NO_LEADER` are offline.
        imbalanced: not led by their first replica.
        reassigning: with adding or removing replicas.
        under_replicated: with fewer in sync than replicas.
        replica_counts: by broker and log directory, the number of replicas.
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
        """Replace a partition by ``after``; None stands for no partition."""
        self.partition_count += (after is not None) - (before is not None)
        old_isr, old_elr, old_leader = _NO_MEMBERS if before is None else (before.isr, before.elr, (before.leader,))
        new_isr, new_elr, new_leader = _NO_MEMBERS if after is None else (after.isr, after.elr, (after.leader,))
        if old_isr != new_isr:
            _move(self.in_sync, place, old_isr, new_isr)
        if old_elr != new_elr:
            _move(self.eligible, place, old_elr, new_elr)
        if old_leader != new_leader:
            _move(self.led, place, old_leader, new_leader)
        _mark(self.imbalanced, place, after is not None and after.leader != after.preferred_replica)
        _mark(self.reassigning, place, after is not None and after.is_reassigning)
        _mark(self.under_replicated, place, after is not None and len(after.isr) < len(after.replicas))
        if before is None or after is None or not _has_same_homes(before, after):
            self._count_replicas(before, after)

    def _count_replicas(self, before: PartitionRegistration | None, after: PartitionRegistration | None) -> None:
        counts = self.replica_counts
        for registration, step in ((after, 1), (before, -1)):
            if registration is None:
                continue
            for where in zip(registration.replicas, registration.directories, strict=True):
                counts[where] = counts.get(where, 0) + step
                if not counts[where]:
                    del counts[where]


_Members: TypeAlias = tuple[tuple[NodeId, ...], tuple[NodeId, ...], tuple[NodeId, ...]]
_NO_MEMBERS: _Members = ((), (), ())


def _has_same_homes(before: PartitionRegistration, after: PartitionRegistration) -> bool:
    return before.replicas == after.replicas and before.directories == after.directories


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
    elif partitions:
        partitions.pop(place, None)
