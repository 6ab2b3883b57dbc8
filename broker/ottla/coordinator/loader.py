"""`CoordinatorLoader`: replays the log of one partition into its shard, slice by slice.

A corrupt record is skipped, as is a batch whose records cannot be read: one of them must not keep all other groups or
transactional ids of the partition from being served. What an older record says then counts again. JVM Kafka's loader
of groups ends at the first one, and its loader of transactions serves what came before it.

Source: CoordinatorLoaderImpl, TransactionStateManager.loadTransactionMetadata of Apache Kafka 4.3.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final, TypeVar

from ottla.coordinator.serde import RecordSerde
from ottla.coordinator.shard import CoordinatorShard
from ottla.coordinator.skipped_records import SkippedRecords
from ottla.errors import CorruptRecordError, ProtocolError
from ottla.purgatory.steps import Steps
from ottla.types import Offset
from ottla.wire.records import ControlRecordType, Record, RecordBatch, parse_control_key, read_records

T = TypeVar("T")

LOADED_RECORDS_PER_SLICE: Final = 500
"""A few milliseconds of work: what one tick may take from the node's loop."""
_RECORDS_PER_STEP: Final = 10
"""So many small records are decoded in the time of a step."""
_BYTES_PER_RECORD: Final = 128
"""So many bytes of a value are decoded in the time of a small record."""
LOADED_BATCH_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a batch may decompress to. Kafka appends none above ``segment.bytes``; real ones are far below a megabyte."""


class CoordinatorLoader:
    """Reads ``batches`` lazily: a slice reads no more of the disk than it replays.

    Attributes:
        skipped: the corrupt records and batches so far.
        replayed_offset: of the record that is being replayed.
    """

    def __init__(
        self, *, batches: Iterable[RecordBatch], serde: RecordSerde[Any], shard: CoordinatorShard[Any]
    ) -> None:
        self.skipped = SkippedRecords()
        self.replayed_offset: Offset = 0
        self._serde = serde
        self._shard = shard
        self._replayed = self._replay_all(batches)

    def load_slice(self) -> bool:
        """Replay the next records; return whether the end of the log has been reached.

        Raises:
            KafkaError: the log no longer has the batches, or cannot find the next one.
            OSError: the disk has failed.
        """
        left = LOADED_RECORDS_PER_SLICE
        for replayed in self._replayed:
            left -= replayed
            if left <= 0:
                return False
        return True

    def _replay_all(self, batches: Iterable[RecordBatch]) -> Iterator[int]:
        """Yield after each record, and within large ones, the number of records that the work counts for.

        Loading can pause there.
        """
        for batch in batches:
            try:
                # A flipped bit may leave an offset or a state that can be decoded: only the CRC detects it.
                batch.check_crc()
                records = read_records(batch, size_bytes_max=LOADED_BATCH_SIZE_BYTES_MAX)
            except CorruptRecordError as error:
                self._skip_batch(batch, error)
                # It may have been decompressed up to the limit: a tick has time for one.
                yield LOADED_RECORDS_PER_SLICE
                continue
            for record in records:
                self.replayed_offset = record.offset
                try:
                    yield from self._replay(batch, record)
                except (ProtocolError, CorruptRecordError) as error:
                    self.skipped.add(record.offset, record.offset, error)
                    self._end_transaction_of_lost_marker(batch)
                yield 1 + len(record.value or b"") // _BYTES_PER_RECORD

    def _replay(self, batch: RecordBatch, record: Record) -> Iterator[int]:
        if batch.is_control:
            kind = parse_control_key(record.key)
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                is_commit = kind is ControlRecordType.COMMIT
                self._shard.replay_end_transaction_marker(batch.producer_id, is_commit=is_commit)
        elif record.key is not None:
            if self._serde.decode_in_steps is None:
                loaded = self._serde.decode(record.key, record.value)
            else:
                loaded = yield from _count_steps(self._serde.decode_in_steps(record.key, record.value))
            if loaded is not None:
                self._shard.replay(loaded, batch.producer_id)

    def _skip_batch(self, batch: RecordBatch, error: CorruptRecordError) -> None:
        self.skipped.add(batch.base_offset, batch.last_offset, error)
        self._end_transaction_of_lost_marker(batch)

    def _end_transaction_of_lost_marker(self, batch: RecordBatch) -> None:
        """Abort what a control batch has ended when it cannot be read.

        The transaction would stay open in the shard otherwise, and the marker of the producer's next one would end it,
        perhaps by a commit. An offset that was committed is consumed again; an aborted one never counts.
        """
        if batch.is_control:
            self._shard.replay_end_transaction_marker(batch.producer_id, is_commit=False)


def _count_steps(steps: Steps[T]) -> Generator[int, None, T]:
    """Run ``steps``, and yield for each the number of records that it counts for; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        yield _RECORDS_PER_STEP
