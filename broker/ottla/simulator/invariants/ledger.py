"""Ledger of committed records: for every partition, the records that were once below a high watermark, in order.

The ledger is filled from the nodes' own disks the first time that a high watermark passes a batch; a replica or
consumer with other records at these offsets later violates an invariant.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.types import LeaderEpoch, Offset, Uuid
from ottla.wire.records import RecordBatch, iterate_batches, read_records

_DECOMPRESSED_BYTES_MAX = 1 << 24


class InvariantViolation(AssertionError):
    """A violated invariant; the message names it."""


class PartitionKey(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Entry(NamedTuple):
    """One committed batch. The CRC covers its records and everything about its producer."""

    base_offset: Offset
    last_offset: Offset
    epoch: LeaderEpoch
    crc: int


@dataclass(slots=True)
class PartitionLedger:
    """See the module. ``values`` has one element for each offset from 0 on; ``end`` is the highest high watermark ever.

    ``keys`` are those of the records; a record without a value, a tombstone, has the value b"" here.

    ``is_excused`` once so many disks have lost unsynced data that no cluster could have kept the records.
    ``deleted_to`` is the highest log start that a client or retention requested: records below may be deleted.
    ``led_to`` is the highest high watermark that a leader had.
    """

    key: PartitionKey
    entries: list[Entry] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    acknowledged: dict[Offset, bytes] = field(default_factory=dict)
    offset_of_value: dict[bytes, Offset] = field(default_factory=dict)
    is_excused: bool = False
    deleted_to: Offset = 0
    led_to: Offset = 0
    is_keyed: bool = False
    """Whether compaction removes records of the partition, at other times on each replica."""

    @property
    def end(self) -> Offset:
        return len(self.values)

    def add(self, batch: RecordBatch) -> None:
        """Add a batch that a high watermark has passed.

        Raises:
            InvariantViolation: OffsetsDenseAndNeverReused, IdempotentProducersNeverDuplicate.
        """
        if self.is_excused and batch.base_offset > self.end:
            # The offsets between were lost with an excuse, and deleted where they were not.
            lost_count = batch.base_offset - self.end
            self.values.extend([b""] * lost_count)
            self.keys.extend([None] * lost_count)
        if batch.base_offset != self.end:
            raise InvariantViolation(
                f"OffsetsDenseAndNeverReused: {self.key} continues at offset {batch.base_offset} behind {self.end}"
            )
        self.entries.append(entry_of(batch))
        for record in read_records(batch, size_bytes_max=_DECOMPRESSED_BYTES_MAX):
            value = bytes(record.value or b"")
            before = self.offset_of_value.get(value)
            # Replicas that were created later have no deleted batches, so they cannot detect these duplicates.
            is_known = before is not None and before >= self.deleted_to
            if is_known and batch.has_producer_id and value.startswith(b"once"):
                raise InvariantViolation(
                    f"IdempotentProducersNeverDuplicate: {self.key} has {value!r} at {before} and {record.offset}"
                )
            self.offset_of_value[value] = record.offset
            self.values.append(value)
            self.keys.append(record.key)

    def index_of(self, offset: Offset) -> int:
        """Return the place in ``entries`` of the batch that holds ``offset``, else of the first one behind it."""
        if self.entries and self.entries[-1].base_offset <= offset <= self.entries[-1].last_offset:
            return len(self.entries) - 1  # most lookups are of the last committed batch
        low, high = 0, len(self.entries)
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def find_entry(self, offset: Offset) -> Entry | None:
        """Return the batch that holds ``offset``; None where it was lost with an excuse."""
        index = self.index_of(offset)
        found = self.entries[index] if index < len(self.entries) else None
        return found if found is not None and found.base_offset <= offset else None

    def remove_from(self, offset: Offset) -> None:
        """Remove records whose loss is excused, from ``offset`` on."""
        index = self.index_of(offset)
        if index < len(self.entries):
            # An entry holds the offset, or is the first behind a gap of offsets that were lost before.
            offset = min(offset, self.entries[index].base_offset)
            del self.entries[index:]
        for value in self.values[offset:]:
            self.offset_of_value.pop(value, None)
        del self.values[offset:]
        del self.keys[offset:]
        self.acknowledged = {at: value for at, value in self.acknowledged.items() if at < offset}


def entry_of(batch: RecordBatch) -> Entry:
    return Entry(batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc)


class Ledger:
    """Ledgers of all partitions; those of a deleted topic are removed."""

    def __init__(self) -> None:
        self.keyed_topics: frozenset[str] = frozenset()
        """Topics from which compaction removes records."""
        self._partitions: dict[tuple[Uuid, int], PartitionLedger] = {}

    def partition(self, key: PartitionKey) -> PartitionLedger:
        """Return the partition's ledger, an empty one at first."""
        found = self._partitions.get((key.topic_id, key.partition))
        if found is None:
            found = PartitionLedger(key, is_keyed=key.topic in self.keyed_topics)
            self._partitions[key.topic_id, key.partition] = found
        return found

    def find(self, topic_id: Uuid, partition: int) -> PartitionLedger | None:
        return self._partitions.get((topic_id, partition))

    def partitions(self) -> list[PartitionLedger]:
        return list(self._partitions.values())

    def remove_topic(self, topic_id: Uuid) -> None:
        for key in [each for each in self._partitions if each[0] == topic_id]:
            del self._partitions[key]


def batches_in(data: bytes, start: Offset, end: Offset) -> list[RecordBatch]:
    """Return the whole batches of ``data`` that have something at or behind ``start`` and end before ``end``."""
    return [batch for batch in iterate_batches(data) if batch.last_offset >= start and batch.last_offset < end]
