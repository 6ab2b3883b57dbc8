"""`CoordinatorLoader`: replays the log of one partition into its shard, slice by slice.

Source: CoordinatorLoaderImpl of Apache Kafka 4.3.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from ottla.coordinator.serde import RecordSerde
from ottla.coordinator.shard import CoordinatorShard
from ottla.wire.records import ControlRecordType, Record, RecordBatch, parse_control_key, read_records

LOADED_RECORDS_PER_SLICE: Final = 500
"""A few milliseconds of work: what one tick may take from the node's loop."""
LOADED_BATCH_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""What a batch may decompress to. Kafka appends none above ``segment.bytes``; real ones are far below a megabyte."""


class CoordinatorLoader:
    """Reads ``batches`` lazily: a slice reads no more of the disk than it replays."""

    def __init__(
        self, *, batches: Iterable[RecordBatch], serde: RecordSerde[Any], shard: CoordinatorShard[Any]
    ) -> None:
        self._serde = serde
        self._shard = shard
        self._replayed = self._replay_all(batches)

    def load_slice(self) -> bool:
        """Replay the next records; return whether the end of the log has been reached.

        Raises:
            ProtocolError: a batch or a record is corrupt.
            KafkaError: the log no longer has the batches.
            OSError: the disk has failed.
        """
        replayed = sum(1 for _ in islice(self._replayed, LOADED_RECORDS_PER_SLICE))
        return replayed < LOADED_RECORDS_PER_SLICE

    def _replay_all(self, batches: Iterable[RecordBatch]) -> Iterator[Record]:
        """Yield each record when it has been replayed, so that loading can pause after any of them."""
        for batch in batches:
            for record in read_records(batch, size_bytes_max=LOADED_BATCH_SIZE_BYTES_MAX):
                if batch.is_control:
                    self._replay_control(batch, record)
                elif record.key is not None:
                    loaded = self._serde.decode(record.key, record.value)
                    if loaded is not None:
                        self._shard.replay(loaded, batch.producer_id)
                yield record

    def _replay_control(self, batch: RecordBatch, record: Record) -> None:
        kind = parse_control_key(record.key)
        if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            is_commit = kind is ControlRecordType.COMMIT
            self._shard.replay_end_transaction_marker(batch.producer_id, is_commit=is_commit)
