"""Records of a `Producer` that are not delivered yet: queues of batches, one queue per partition.

Source: RecordAccumulator and ProducerBatch (Kafka 4.3).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.types import Offset, ProducerEpoch, ProducerId, TopicPartition
from ottla.wire.records import Header

RECORD_OVERHEAD_BYTES = 24
"""Approximate overhead of a record besides its key, value and headers."""


class RecordMetadata(NamedTuple):
    """Partition and offset of a record; ``offset`` is -1 with acks=0, or if the broker detected a duplicate."""

    partition: TopicPartition
    offset: Offset
    timestamp_ms: int


@dataclass(slots=True)
class PendingRecord:
    """One record that is not delivered yet."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    size_bytes: int
    done: "asyncio.Future[RecordMetadata]"


@dataclass(slots=True)
class PendingBatch:
    """Records of one batch; ``data`` is set once its sequence is assigned."""

    partition: TopicPartition
    opened_at_s: float
    records: list[PendingRecord] = field(default_factory=list)
    size_bytes: int = 0
    data: bytes | None = None


@dataclass(slots=True)
class PartitionQueue:
    """One partition's batches, oldest first, and the producer id and epoch of their sequences."""

    partition: TopicPartition
    batches: deque[PendingBatch] = field(default_factory=deque)
    is_in_flight: bool = False
    producer: tuple[ProducerId, ProducerEpoch] | None = None
    next_sequence: int = 0
