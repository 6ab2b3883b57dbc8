"""`CommitFeed`: notifies the listeners of every committed record once, in order, and of the leader.

Batches that this replica appended as leader stay in memory until they are committed, so that they are not read back
from the disk; all others are read from the log when the high watermark passes them.

Once all of the log has been read after a start, a call notifies of one slice only: an election of thousands of
partitions is hundreds of kilobytes, and listeners need milliseconds for a few of them. Listeners then see the image
between two batches, which every controller leaves valid.

Source: KafkaRaftClient.ListenerContext of Apache Kafka.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from ottla.errors import CorruptRecordError, ProtocolError, StorageError
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.record_batch import read_batch
from ottla.raft.records import Batch, LeaderAndEpoch, RecordSerde
from ottla.raft.snapshot import SnapshotReader
from ottla.types import Offset

RecordT = TypeVar("RecordT")

NOTIFIED_BYTES_MAX: Final = 256 * 1024
"""Size of the batches that one notification of the listeners carries at a start."""
SLICE_BYTES_MAX: Final = 4 * 1024
"""The same later: the changes of some 100 partitions, which take a broker two to three milliseconds."""


class RaftListener(Protocol[RecordT]):
    """A follower of the log: it sees every committed record once, in order, from a snapshot or from batches."""

    def on_committed(self, batches: Sequence[Batch[RecordT]]) -> None: ...

    def on_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        """Discard the state so far and load the snapshot."""

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Learn a new leader or epoch; the leader itself is notified once it has seen all records before its epoch."""


class CommitFeed(Generic[RecordT]):
    """See the module.

    Attributes:
        next_offset: the first offset that listeners were not notified of.
        has_more: whether `notify_committed` has left committed batches for its next call.
        committed_size_bytes: of all batches that listeners were notified of.
    """

    def __init__(self, serde: RecordSerde[RecordT]) -> None:
        self._serde = serde
        self._listeners: list[RaftListener[RecordT]] = []
        self._uncommitted: deque[Batch[RecordT]] = deque()
        self._notified_leader: LeaderAndEpoch | None = None
        self._is_complete = False
        """Whether listeners have seen all that was committed when this replica started."""
        self.next_offset: Offset = 0
        self.has_more = False
        self.committed_size_bytes = 0

    def register(self, listener: RaftListener[RecordT]) -> None:
        self._listeners.append(listener)

    def clear(self) -> None:
        """Unregister all listeners."""
        self._listeners.clear()

    def on_appended(self, batch: Batch[RecordT]) -> None:
        """Keep a batch that this replica appended as leader."""
        self._uncommitted.append(batch)

    def on_stopped_leading(self) -> None:
        """Drop uncommitted batches: another leader may replace them in the log."""
        self._uncommitted.clear()

    def notify_snapshot(self, reader: SnapshotReader[RecordT]) -> None:
        self._uncommitted.clear()
        self.next_offset = reader.snapshot_id.offset
        for listener in list(self._listeners):
            listener.on_snapshot(reader)

    def notify_committed(self, log: MetadataLog, high_watermark: Offset) -> None:
        """Notify the listeners of new records below ``high_watermark``: of all at a start, later of a slice.

        Raises:
            StorageError: the log cannot be read.
        """
        portions = self._portions(log, high_watermark, SLICE_BYTES_MAX if self._is_complete else NOTIFIED_BYTES_MAX)
        for batches in portions:
            self._notify(batches)
            if self._is_complete and self.next_offset < high_watermark:
                self.has_more = True
                return
        self._is_complete, self.has_more = True, False

    def _portions(self, log: MetadataLog, high_watermark: Offset, size_bytes: int) -> Iterator[list[Batch[RecordT]]]:
        first_in_memory = self._uncommitted[0].base_offset if self._uncommitted else high_watermark
        if self.next_offset < first_in_memory:
            yield from self._read(log, self.next_offset, min(first_in_memory, high_watermark), size_bytes)
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches = [self._uncommitted.popleft()]
            left_bytes = size_bytes - batches[0].size_bytes
            while left_bytes > 0 and self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
                batches.append(self._uncommitted.popleft())
                left_bytes -= batches[-1].size_bytes
            yield batches

    def _notify(self, batches: list[Batch[RecordT]]) -> None:
        self.next_offset = batches[-1].last_offset + 1
        self.committed_size_bytes += sum(batch.size_bytes for batch in batches)
        for listener in list(self._listeners):
            listener.on_committed(batches)

    def notify_leader(self, leader: LeaderAndEpoch) -> None:
        """Notify the listeners of the leader, if it has changed."""
        if leader == self._notified_leader:
            return
        self._notified_leader = leader
        for listener in list(self._listeners):
            listener.on_leader_change(leader)

    def _read(
        self, log: MetadataLog, start_offset: Offset, end_offset: Offset, portion_bytes: int
    ) -> Iterator[list[Batch[RecordT]]]:
        """Yield the batches in portions: decoded they take twenty times the memory, and a start reads the whole log."""
        batches: list[Batch[RecordT]] = []
        size_bytes = 0
        for raw in log.batches(start_offset, end_offset):
            try:
                batches.append(read_batch(raw, self._serde))
            except (CorruptRecordError, ProtocolError) as error:
                raise StorageError(f"the metadata log in {log.directory} cannot be read: {error}") from error
            size_bytes += raw.size_bytes
            if size_bytes >= portion_bytes:
                yield batches
                batches, size_bytes = [], 0
        if batches:
            yield batches
