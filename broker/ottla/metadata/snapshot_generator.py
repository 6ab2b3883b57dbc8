"""`SnapshotGenerator`: writes the metadata image as a snapshot when the log has grown or aged enough.

An image never changes, so it can be written in pieces, a few milliseconds' worth at each tick, while newer ones are
published.

Source: SnapshotGenerator and SnapshotEmitter of Apache Kafka.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from ottla.errors import StorageError
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.ports import Clock
from ottla.raft.client import RaftClient
from ottla.raft.snapshot import SnapshotWriter
from ottla.types import OffsetAndEpoch

RECORDS_PER_TICK: Final = 200
"""About a millisecond of work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGeneratorConfig:
    """The defaults are Kafka 4.3's.

    Attributes:
        size_bytes_max: metadata.log.max.record.bytes.between.snapshots.
        interval_ms: metadata.log.max.snapshot.interval.ms; 0 is never.
    """

    size_bytes_max: int = 20 * 1024 * 1024
    interval_ms: int = 60 * 60 * 1000


class SnapshotGenerator:
    """A publisher of `MetadataLoader`; ``raft`` has the length of the log and writes the snapshots."""

    def __init__(
        self, *, raft: RaftClient[MetadataRecord], clock: Clock, config: SnapshotGeneratorConfig | None = None
    ) -> None:
        self._raft = raft
        self._clock = clock
        self._config = config or SnapshotGeneratorConfig()
        self._size_bytes_at_last = 0
        self._last_ms = clock.monotonic_ms()
        self._writer: SnapshotWriter[MetadataRecord] | None = None
        self._records: Iterator[MetadataRecord] = iter(())

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Start a snapshot of ``image`` when one is due and none is being written."""
        now_ms = self._clock.monotonic_ms()
        size_bytes = self._raft.committed_size_bytes
        if self._writer is not None or not self._is_due(size_bytes, now_ms):
            return
        self._size_bytes_at_last, self._last_ms = size_bytes, now_ms
        offset, epoch, log_time_ms = image.provenance
        try:
            self._writer = self._raft.create_snapshot(
                OffsetAndEpoch(offset + 1, epoch), last_contained_log_time_ms=log_time_ms
            )
        except StorageError as error:
            self._raft.fail(error)
        self._records = image.records()

    def tick(self, now_ms: int) -> int | None:
        """Write the next piece of the snapshot under way; return ``now_ms`` when there was one, else None."""
        if self._writer is None:
            return None
        writer = self._writer
        records = list(islice(self._records, RECORDS_PER_TICK))
        try:
            if records:
                writer.append(records)
            else:
                self._writer = None
                self._raft.finish_snapshot(writer)
        except StorageError as error:
            self._writer = None
            self._raft.fail(error)
        return now_ms

    def next_deadline_ms(self) -> int | None:
        """Now, while a snapshot is being written."""
        return None if self._writer is None else self._clock.monotonic_ms()

    def _is_due(self, size_bytes: int, now_ms: int) -> bool:
        if size_bytes - self._size_bytes_at_last >= self._config.size_bytes_max:
            return True
        return 0 < self._config.interval_ms <= now_ms - self._last_ms
