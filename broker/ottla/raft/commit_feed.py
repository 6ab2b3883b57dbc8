"""`CommitFeed`: tells the listeners every committed record once, in order, and who leads.

What this replica appended as leader is kept until it is committed, so that it is not read back from the disk; all else
is read from the log when the high watermark passes it.

Source: KafkaRaftClient.ListenerContext of Apache Kafka.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ottla.errors import CorruptRecordError, ProtocolError, StorageError
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.records import Batch, LeaderAndEpoch, RecordSerde
from ottla.raft.snapshot import SnapshotReader, read_batch
from ottla.types import Offset

RecordT = TypeVar("RecordT")

TOLD_BYTES_MAX: Final = 256 * 1024
"""Of batches that were read from the log: the listeners are told about so many at once."""


class RaftListener(Protocol[RecordT]):
    """Whoever follows the log: it sees every committed record once, in order, from a snapshot or from batches."""

    def on_committed(self, batches: Sequence[Batch[RecordT]]) -> None: ...

    def on_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        """Forget everything and load the snapshot."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Learn of a new leader or epoch; for the leader itself, after it has seen every record before its epoch."""


class CommitFeed(Generic[RecordT]):
    """See the module.

    Attributes:
        next_offset: the first one that has not been told.
        committed_size_bytes: of all batches told so far.
    """

    def __init__(self, serde: RecordSerde[RecordT]) -> None:
        self._serde = serde
        self._listeners: list[RaftListener[RecordT]] = []
        self._uncommitted: deque[Batch[RecordT]] = deque()
        self._told: LeaderAndEpoch | None = None
        self.next_offset: Offset = 0
        self.committed_size_bytes = 0

    def register(self, listener: RaftListener[RecordT]) -> None:
        self._listeners.append(listener)

    def clear(self) -> None:
        """Tell nobody anything any more."""
        self._listeners.clear()

    def on_appended(self, batch: Batch[RecordT]) -> None:
        """Keep what this replica appended as leader."""
        self._uncommitted.append(batch)

    def on_stopped_leading(self) -> None:
        """Forget it: another leader may replace it in the log."""
        self._uncommitted.clear()

    def tell_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        self._uncommitted.clear()
        self.next_offset = reader.snapshot_id.offset
        for listener in list(self._listeners):
            listener.on_snapshot(reader)

    def tell_committed(self, log: MetadataLog, high_watermark: Offset) -> None:
        """Tell everything below ``high_watermark`` that has not been told.

        Raises:
            StorageError: the log cannot be read.
        """
        first_in_memory = self._uncommitted[0].base_offset if self._uncommitted else high_watermark
        if self.next_offset < first_in_memory:
            for batches in self._read(log, self.next_offset, min(first_in_memory, high_watermark)):
                self._tell(batches)
        batches = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        if batches:
            self._tell(batches)

    def _tell(self, batches: list[Batch[RecordT]]) -> None:
        self.next_offset = batches[-1].last_offset + 1
        self.committed_size_bytes += sum(batch.size_bytes for batch in batches)
        for listener in list(self._listeners):
            listener.on_committed(batches)

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Tell who leads, where that is news."""
        if leader == self._told:
            return
        self._told = leader
        for listener in list(self._listeners):
            listener.on_leader_change(leader)

    def _read(self, log: MetadataLog, start_offset: Offset, end_offset: Offset) -> Iterator[list[Batch[RecordT]]]:
        """Yield the batches, some at a time: decoded they take twenty times the memory, and a start reads them all."""
        batches: list[Batch[RecordT]] = []
        size_bytes = 0
        for raw in log.batches(start_offset, end_offset):
            try:
                batches.append(read_batch(raw, self._serde))
            except (CorruptRecordError, ProtocolError) as error:
                raise StorageError(f"the metadata log in {log.directory} cannot be read: {error}") from error
            size_bytes += raw.size_bytes
            if size_bytes >= TOLD_BYTES_MAX:
                yield batches
                batches, size_bytes = [], 0
        if batches:
            yield batches
