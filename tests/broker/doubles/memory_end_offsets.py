"""Ends of partitions in memory, for the lag of share groups."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.groups.share.end_offsets import EndOffset
from ottla.purgatory import Delayed
from ottla.types import TopicPartition


@dataclass
class MemoryEndOffsets:
    """`EndOffsets` of partitions in memory; those without an entry are empty."""

    ends: dict[TopicPartition, EndOffset] = field(default_factory=dict)

    def list_latest(self, partitions: Iterable[TopicPartition]) -> list[Delayed[EndOffset]]:
        return [Delayed.of(self.ends.get(partition, EndOffset(ErrorCode.NONE, 0))) for partition in partitions]
